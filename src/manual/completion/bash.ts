/** Completion for bash. It needs nothing of the package bash-completion but being loaded. */

import type { Completed, CompletedOption, Values } from './model.js';

export function bashCompletion({ options, verbs }: Completed): string {
  const verbNames = verbs.map(({ name }) => name).join(' ');
  const values = [
    `:0) kind='words ${verbNames}' ;;`,
    ...verbs.flatMap(({ name, options: own, values: list, passesOn }) => [
      ...own.flatMap((option) => valueCases(name, option)),
      ...list.map((one, at) => {
        const isLast = passesOn && at === list.length - 1;
        return `${name}:${isLast ? '*[0-9]' : at}) kind='${kindOf(one)}' ;;`;
      }),
    ]),
  ];
  const offered = [
    `'') options='${namesOf(options)}' ;;`,
    ...verbs.map(({ name, options: own }) => `${name}) options='${namesOf(own)}' ;;`),
  ];
  const passing = verbs.filter(({ passesOn }) => passesOn).map(({ name }) => name);
  return `# bash completion for kfd-checkpoint
# Made from the description of its command line.

# Sets kind to what the value of an option can be, or the argument with this number.
_kfd_checkpoint_kind() {
	kind=
	case $1:$2 in
${values.map((one) => `\t${one}\n`).join('')}	esac
}

_kfd_checkpoint_options() {
	options=
	case $1 in
${offered.map((one) => `\t${one}\n`).join('')}	esac
}

_kfd_checkpoint_files() {
	compopt -o filenames 2>/dev/null # fails where nobody has pressed a key
	mapfile -t COMPREPLY < <(compgen "$1" -- "$current")
}

_kfd_checkpoint_containers() {
	mapfile -t -O "\${#COMPREPLY[@]}" COMPREPLY < <(
		compgen -W "$(podman ps "$@" --format '{{.Names}}' 2>/dev/null)" -- "$current"
	)
}

_kfd_checkpoint_sessions() {
	mapfile -t COMPREPLY < <(
		compgen -W "$(kfd-checkpoint sessions 2>/dev/null | sed -n 's/^\\([0-9a-f][0-9a-f]*\\) .*/\\1/p')" -- "$current"
	)
}

_kfd_checkpoint() {
	local current=\${COMP_WORDS[COMP_CWORD]} verb='' option='' kind options word at count=0
	COMPREPLY=()
	# bash makes three words of --option=value.
	[ "$current" != = ] || current=
	for ((at = 1; at < COMP_CWORD; at++)); do
		word=\${COMP_WORDS[at]}
		if [ "$word" = = ]; then
			continue
		elif [ -n "$option" ]; then
			option=
		elif [[ $word == -* ]]; then
			_kfd_checkpoint_kind "$verb" "$word"
			[ -z "$kind" ] || option=$word
		elif [ -z "$verb" ]; then
			verb=$word
		else
			((++count))
		fi
	done
	if [ -z "$option" ] && [[ $current == -* ]]; then
		case $verb:$count in
		${passing.map((name) => `${name}:[1-9]*`).join(' | ')}) return ;; # podman's
		esac
		_kfd_checkpoint_options "$verb"
		mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
		return
	fi
	_kfd_checkpoint_kind "$verb" "\${option:-$count}"
	case $kind in
	words*) mapfile -t COMPREPLY < <(compgen -W "\${kind#words}" -- "$current") ;;
	files) _kfd_checkpoint_files -f ;;
	folders) _kfd_checkpoint_files -d ;;
	containers) _kfd_checkpoint_containers ;;
	archives)
		_kfd_checkpoint_files -f
		_kfd_checkpoint_containers --all
		;;
	sessions) _kfd_checkpoint_sessions ;;
	esac
}

complete -F _kfd_checkpoint kfd-checkpoint
`;
}

const kindOf = (values: Values) =>
  values.kind === 'words' ? `words ${values.words.join(' ')}` : values.kind;

function valueCases(verb: string, { names, values }: CompletedOption): string[] {
  if (values === undefined) return [];
  return [`${names.map((name) => `${verb}:${name}`).join(' | ')}) kind='${kindOf(values)}' ;;`];
}

const namesOf = (options: readonly CompletedOption[]) =>
  options.flatMap(({ names }) => names).join(' ');
