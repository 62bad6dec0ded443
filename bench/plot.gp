# One bar a key; values differ by orders of magnitude, so the axis is logarithmic.
rows = int(system("wc -l <build/bench/".name.".tsv"))
many = rows > 20
set terminal svg noenhanced size (many ? 300 + 24 * rows : 900),(many ? 650 : 500) \
	dynamic background rgb 'white'
set output 'build/bench/'.name.'.svg'
set datafile separator '\t'
set title 'scripts/bench '.name
set style fill solid 0.6
set boxwidth 0.7
set logscale y
set ylabel 'value, in the unit of the key'
set bmargin (many ? 18 : 8)
set rmargin (many ? 2 : 14)
set xtics rotate by (many ? -90 : -30)
set grid y
unset key
plot 'build/bench/'.name.'.tsv' using ($2 > 0 ? $2 : 1/0):xticlabels(strcol(1).' ['.strcol(3).']') with boxes lc rgb '#2a6f97'

# Where there are samples: for each series the part of them that is at most so long.
samples = 'build/bench/'.name.'.samples.csv'
if (system('test -s '.samples.' && echo yes') eq 'yes') {
	series = system("tail -n +2 ".samples." | cut -d, -f1 | awk '!seen[$0]++ { printf \"\\\"%s\\\" \", $0 }'")
	set terminal svg noenhanced size 900,500 dynamic background rgb 'white'
	set output 'build/bench/'.name.'.samples.svg'
	set datafile separator whitespace
	set title 'scripts/bench '.name.': cumulative distribution'
	set bmargin 4
	set rmargin -1
	unset logscale y
	set logscale x
	set xtics norotate autofreq
	set format x '%.0s %cs'
	set xlabel 'time'
	set ylabel 'part of the samples'
	set yrange [0:1.02]
	set grid x y
	set key outside right top
	# A thousand points of a series draw its curve.
	thin = "awk '{ v[NR] = $1 } END { step = NR > 1000 ? NR / 1000 : 1; for (i = 1; i < NR; i += step) ".\
		"print v[int(i)], int(i) / NR; print v[NR], 1 }'"
	curve(one) = "< awk -F, -v series='".one."' '$1 == series { print $2 }' ".samples." | sort -g | ".thin
	plot for [one in series] curve(one) using ($1 / 1e6):2 with lines lw 2 title one
}
