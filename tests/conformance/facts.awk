# SPDX-License-Identifier: Apache-2.0
#
# Prints VALUE, SIZE and MEMBER questions for what the headers in src/driver declare. It reads
# only what clang-format leaves: one enumerator or member a line.

# Numbers, not casts to pointers; guards have no value.
/^#define (CU|CUDA)_?[A-Z0-9_]+ +[(0-9-]/ && $0 !~ /\*/ {
	print "VALUE(" $2 ")"
	next
}

/^typedef (struct|union) [A-Za-z0-9_]+ \{$/ {
	depth = 1
	held[1] = ""
	next
}

/^typedef enum [A-Za-z0-9_]+ \{$/ {
	in_enum = 1
	next
}

in_enum && /^\t[A-Z]+_[A-Z0-9_]+ = / {
	print "VALUE(" $1 ")"
	next
}

in_enum && /^}/ {
	in_enum = 0
	next
}

# A nested structure: its members wait for its name, which comes at its end.
depth && /^\t+(struct|union) \{$/ {
	held[++depth] = ""
	next
}

depth > 1 && /^\t+} *[A-Za-z0-9_]*(\[[^\]]*\])*;$/ {
	name = $0
	sub(/^\t+} */, "", name)
	sub(/;$/, "", name)
	index_ = name ~ /\[/ ? "[0]" : ""
	sub(/\[.*/, "", name)
	count = split(held[depth], members, "\n")
	depth--
	if (name != "")
		held[depth] = held[depth] name "\n"
	for (i = 1; i < count; i++)
		held[depth] = held[depth] (name == "" ? "" : name index_ ".") members[i] "\n"
	next
}

depth == 1 && /^} [A-Za-z0-9_]+;$/ {
	type = $2
	sub(/;$/, "", type)
	print "SIZE(" type ")"
	count = split(held[1], members, "\n")
	for (i = 1; i < count; i++)
		print "MEMBER(" type ", " members[i] ")"
	depth = 0
	next
}

depth && /;/ {
	line = $0
	sub(/;.*/, "", line)
	sub(/(\[[^\]]*\])+$/, "", line)
	match(line, /[A-Za-z0-9_]+$/)
	held[depth] = held[depth] substr(line, RSTART) "\n"
}
