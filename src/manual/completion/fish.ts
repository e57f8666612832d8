/** Completion for fish. */

import type { Completed, CompletedOption, CompletedVerb, Values } from './model.js';

export function fishCompletion({ options, verbs }: Completed): string {
  const first = '__kfd_checkpoint_before_verb';
  const lines = [
    ...options.map((option) => complete(first, optionWords(option))),
    ...verbs.map(({ name, summary }) =>
      complete(first, ['-a', quoted(name), '-d', quoted(summary)]),
    ),
    ...verbs.flatMap(linesOf),
  ];
  return `# fish completion for kfd-checkpoint
# Made from the description of its command line.

function __kfd_checkpoint_before_verb
    test (count (commandline -opc)) -eq 1
end

# Whether the verb is $argv[1].
function __kfd_checkpoint_verb
    set -l words (commandline -opc)
    test "$words[2]" = $argv[1]
end

# Whether the verb is $argv[1], and its first argument is still to come, so that options are not yet podman's. The
# other arguments are options with a value.
function __kfd_checkpoint_before_argument
    set -l words (commandline -opc)
    test "$words[2]" = $argv[1]; or return 1
    set -l valued $argv[2..-1]
    set -l is_value no
    for word in $words[3..-1]
        if test $is_value = yes
            set is_value no
        else if contains -- $word $valued
            set is_value yes
        else if not string match -q -- '-*' $word
            return 1
        end
    end
end

function __kfd_checkpoint_containers
    podman ps $argv --format '{{.Names}}' 2>/dev/null
end

function __kfd_checkpoint_sessions
    kfd-checkpoint sessions 2>/dev/null | string replace -rf '^([0-9a-f]+) +(\\S+).*' '$1\\t$2'
end

complete -c kfd-checkpoint -f
${lines.map((line) => `${line}\n`).join('')}`;
}

const complete = (condition: string, words: readonly string[]) =>
  `complete -c kfd-checkpoint -n ${quoted(condition)} ${words.join(' ')}`;

function linesOf({ name, options, values, passesOn }: CompletedVerb): string[] {
  const valued = options.filter((option) => option.values !== undefined);
  const names = valued.flatMap((option) => option.names).join(' ');
  const isVerb = `__kfd_checkpoint_verb ${name}`;
  const isBefore = `__kfd_checkpoint_before_argument ${name} ${names}`.trimEnd();
  const [first, ...others] = values;
  return [
    ...options.map((option) => complete(passesOn ? isBefore : isVerb, optionWords(option))),
    ...(first === undefined ? [] : [complete(isBefore, valueWords(first))]),
    // What follows the first argument is podman's.
    ...others.map((one) => complete(`${isVerb}; and not ${isBefore}`, valueWords(one))),
  ];
}

function optionWords({ names, description, values }: CompletedOption): string[] {
  const words = names.flatMap((name) =>
    name.startsWith('--') ? ['-l', name.slice(2)] : ['-s', name.slice(1)],
  );
  const needed = values === undefined ? [] : ['-r', ...valueWords(values)];
  return [...words, ...needed, '-d', quoted(description)];
}

/** Words of `complete` for what a value can be. */
function valueWords(values: Values): string[] {
  switch (values.kind) {
    case 'words':
      return ['-f', '-a', quoted(values.words.join(' '))];
    case 'text':
      return ['-f'];
    case 'files':
      return ['-F'];
    case 'folders':
      return ['-f', '-a', quoted('(__fish_complete_directories (commandline -ct))')];
    case 'sessions':
      return ['-f', '-a', quoted('(__kfd_checkpoint_sessions)')];
    case 'containers':
      return ['-f', '-a', quoted('(__kfd_checkpoint_containers)')];
    case 'archives':
      return ['-F', '-a', quoted('(__kfd_checkpoint_containers --all)')];
  }
}

const quoted = (text: string) => `'${text.replace(/['\\]/g, '\\$&')}'`;
