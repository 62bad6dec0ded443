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
# Names of shares, where they belong.
PATH=$BERTH_BUILD/bin:$PATH
"$berth" run -q --sim --name vision -m 1G -- /bin/true
"$berth" run -q --sim --name video -m 1G -- /bin/true
mkdir "$BERTH_STATE_DIR/shares/empty"
run "$berth" help --shares
check "help --shares prints them" is "$(printf '%s' "$out" | xargs)" "video vision"
check "berth limit takes them" is "$(complete_words limit vi)" "video vision"
check "berth check takes several" is "$(complete_words check video vis)" "vision"
check "berth run takes one behind --name" is "$(complete_words run --name vid)" "video"
check "or -n" is "$(complete_words run -m 1G -n vi)" "video vision"
check "not elsewhere" is "$(complete_words run -m vid)" ""
check "options all the same" has "$(complete_words limit vision --un)" "--unlimited"
run env BERTH_STATE_DIR=relative "$berth" help --shares
check "a wrong state directory is told" is "$status" 1
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
