#!/bin/bash
# The completion script and the tables for scripts say what the commands really take.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
eval "$("$berth" help --completion bash)"
complete_words() { # WORDS...: what is offered for the last one
	COMP_WORDS=(berth "$@") COMP_CWORD=$#
	COMPREPLY=()
	_berth
	echo "${COMPREPLY[*]-}"
}
check "commands" has "$(complete_words r)" "run"
check "options of a command" has "$(complete_words run --m)" "--memory"
check "of another" has "$(complete_words ps --j)" "--json"
check "nothing behind --" is "$(complete_words run -m 1G -- --m)" ""
for command in $("$berth" help --commands); do
	run "$berth" "$command" --help
	check "berth $command --help" is "$status" 0
	for option in $("$berth" help --options "$command"); do
		check "berth $command --help names $option" has "$out" "$option"
	done
done
run "$berth" help --completion csh
check "an unknown shell is refused" is "$status" 2
end
