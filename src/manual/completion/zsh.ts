/** Completion for zsh: a function that compinit finds by its first line. */

import type { Completed, CompletedOption, CompletedVerb, Values } from './model.js';

export function zshCompletion({ options, verbs }: Completed): string {
  const listed = verbs.map(({ name, summary }) => `    ${quoted(`${name}:${escaped(summary)}`)}\n`);
  return `#compdef kfd-checkpoint
# Made from the description of the command line.

_kfd-checkpoint_containers() {
  local -a names
  names=(\${(f)"$(_call_program containers podman ps "$@" --format '{{.Names}}' 2>/dev/null)"})
  compadd -a names
}

_kfd-checkpoint_running() { _kfd-checkpoint_containers }

_kfd-checkpoint_archives() {
  _files
  _kfd-checkpoint_containers --all
}

_kfd-checkpoint_sessions() {
  local -a sessions
  local pid operation rest
  _call_program sessions kfd-checkpoint sessions 2>/dev/null | while read -r pid operation rest; do
    [[ -n $pid && $pid != [A-Z]* ]] && sessions+=("$pid:$operation")
  done
  _describe session sessions
}

_kfd-checkpoint() {
  local curcontext=$curcontext state line
  local -A opt_args
  local -a verbs
  verbs=(
${listed.join('')}  )
  _arguments -C \\
${options.map((option) => `    ${specification(option, '(- *)')} \\\n`).join('')}    '1:verb:->verb' \\
    '*::argument:->argument' && return
  case $state in
    verb) _describe verb verbs ;;
    argument)
      case $words[1] in
${verbs.map(verbCase).join('')}      esac
      ;;
  esac
}

_kfd-checkpoint "$@"
`;
}

function verbCase({ name, options, values, passesOn }: CompletedVerb): string {
  const rest = passesOn ? values.at(-1) : undefined;
  const own = passesOn ? values.slice(0, -1) : values;
  const specifications = [
    ...options.map((option) => specification(option)),
    ...own.map((one, at) => quoted(`${at + 1}:${messageOf(one)}:${actionOf(one)}`)),
    // From here on the words are podman's.
    ...(rest === undefined ? [] : [quoted(`*::${messageOf(rest)}:${actionOf(rest)}`)]),
  ];
  return `        ${name})
          _arguments ${specifications.join(' \\\n            ')}
          ;;
`;
}

/** An option of `_arguments`. One that ends the program excludes all else. */
function specification(
  { names, description, values, repeats }: CompletedOption,
  excluded = '',
): string {
  const value = values === undefined ? '' : `:${messageOf(values)}:${actionOf(values)}`;
  const text = `[${escaped(description)}]${value}`;
  const own = excluded || (repeats ? '*' : `(${names.join(' ')})`);
  return names
    .map((name) => {
      const takes = values === undefined ? '' : name.startsWith('--') ? '=' : '+';
      return quoted(`${own}${name}${takes}${text}`);
    })
    .join(' ');
}

const messages = {
  words: 'value',
  text: 'text',
  files: 'file',
  folders: 'folder',
  sessions: 'session',
  containers: 'container',
  archives: 'archive or container',
} as const;
const messageOf = ({ kind }: Values) => messages[kind];

function actionOf(values: Values): string {
  switch (values.kind) {
    case 'words':
      return `(${values.words.join(' ')})`;
    case 'text':
      return '';
    case 'files':
      return '_files';
    case 'folders':
      return '_files -/';
    case 'sessions':
      return '_kfd-checkpoint_sessions';
    case 'containers':
      return '_kfd-checkpoint_running';
    case 'archives':
      return '_kfd-checkpoint_archives';
  }
}

const escaped = (text: string) => text.replace(/[\\:[\]]/g, '\\$&');
const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
