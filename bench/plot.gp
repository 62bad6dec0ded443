# One bar a key; values differ by orders of magnitude, so the axis is logarithmic.
set terminal svg noenhanced size 900,500 dynamic background rgb 'white'
set output 'build/bench/'.name.'.svg'
set datafile separator '\t'
set title 'scripts/bench '.name
set style fill solid 0.6
set boxwidth 0.7
set logscale y
set ylabel 'value, in the unit of the key'
set bmargin 8
set rmargin 14
set xtics rotate by -30
set grid y
unset key
plot 'build/bench/'.name.'.tsv' using ($2 > 0 ? $2 : 1/0):xticlabels(strcol(1).' ['.strcol(3).']') with boxes lc rgb '#2a6f97'
