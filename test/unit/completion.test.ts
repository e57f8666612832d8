/** Completions, asked of the real shells: what each of them offers after some words. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { completions } from '../../src/manual/completion/completions.js';
import { describedProgram } from '../../src/manual/program.js';
import { isMissing } from './installed-program.js';
import { temporaryFolder } from './paths.js';

const verbs = describedProgram().commands;
const verbNames = [...verbs.map((verb) => verb.name()), 'help'];

/** Stand-ins for the programs that completions ask. */
const programs = {
  podman: `case "$*" in
*--all*) printf 'job\\nold-job\\n' ;;
ps*) echo job ;;
esac`,
  'kfd-checkpoint': `[ "$1" = sessions ] && printf '%s\\n' 'PID   OPERATION' '99    restore' '4711  checkpoint'`,
};

/** A folder with files to complete, the programs, and the completions as packages install them. */
async function home(t: TestContext): Promise<string> {
  const folder = await temporaryFolder(t);
  const files = new Map([
    ...[...completions()].map(([name, text]) => [`share/${name}`, text] as const),
    ...Object.entries(programs).map(
      ([name, text]) => [`bin/${name}`, `#!/bin/sh\n${text}\n`] as const,
    ),
    ['here/job.tar', ''] as const,
    ['here/dumps/x', ''] as const,
    ['zdot/.zshrc', zshrc] as const,
  ]);
  for (const [name, text] of files) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), text);
  }
  for (const name of Object.keys(programs)) await chmod(join(folder, 'bin', name), 0o755);
  return folder;
}

/** A line editor that completes once, writes what it is offered to a file, and ends. */
const zshrc = `
fpath=($HERE/share/zsh/site-functions $fpath)
autoload -Uz compinit && compinit -u -C -d $HERE/zcompdump
setopt no_auto_list no_beep
compadd() {
  local -a offered
  if (( \${@[(I)-[OAD]]} == 0 )); then
    builtin compadd -O offered "$@"
    (( $#offered )) && print -rl -- $offered >>$HERE/offered
  fi
  builtin compadd "$@"
}
zle-line-init() {
  BUFFER=$ASKED
  CURSOR=$#BUFFER
  zle complete-word
  exit 0
}
zle -N zle-line-init
`;

/** The last word is the one to complete. Shells that show descriptions have them after a tab. */
type Ask = (folder: string, words: readonly string[]) => string[];

function run(
  folder: string,
  command: string,
  args: readonly string[],
  env: Record<string, string> = {},
) {
  const { stdout, stderr, status } = spawnSync(command, args, {
    cwd: join(folder, 'here'),
    encoding: 'utf8',
    timeout: 60_000,
    env: {
      ...process.env,
      PATH: `${folder}/bin:${process.env['PATH']}`,
      HOME: folder,
      HERE: folder,
      ...env,
    },
  });
  assert.equal(status, 0, stderr);
  return stdout;
}

const sorted = (text: string) => {
  const words = text.split('\n').map((line) => line.split('\t')[0]?.replace(/\/$/, '') ?? '');
  return [...new Set(words.filter((word) => word !== ''))].sort();
};

const shells: Record<string, Ask> = {
  bash(folder, words) {
    const script = `source "$HERE/share/bash-completion/completions/kfd-checkpoint"
      COMP_WORDS=(kfd-checkpoint "$@") COMP_CWORD=$# && _kfd_checkpoint && printf "%s\\n" "\${COMPREPLY[@]}"`;
    // readline makes words of "=".
    const split = words.flatMap((word) => word.split(/(?<==)|(?==)/));
    return sorted(run(folder, 'bash', ['--norc', '-c', script, 'bash', ...split]));
  },
  zsh(folder, words) {
    const asked = `kfd-checkpoint ${words.join(' ')}`;
    const offered = join(folder, 'offered');
    writeFileSync(offered, '');
    // Its line editor needs a terminal.
    run(folder, 'script', ['-qec', 'zsh -i', '/dev/null'], {
      ASKED: asked,
      ZDOTDIR: join(folder, 'zdot'),
      TERM: 'vt100',
    });
    return sorted(readFileSync(offered, 'utf8'));
  },
  fish(folder, words) {
    const script =
      'source $HERE/share/fish/vendor_completions.d/kfd-checkpoint.fish; complete -C "$ASKED"';
    return sorted(
      run(folder, 'fish', ['--no-config', '-c', script], {
        ASKED: `kfd-checkpoint ${words.join(' ')}`,
      }),
    );
  },
};

const asks: readonly (readonly [words: readonly string[], offered: readonly string[]])[] = [
  [[''], verbNames],
  [['ver'], ['verify', 'version']],
  [['help', 'can'], ['cancel']],
  [
    ['configure', ''],
    ['podman', 'containerd'],
  ],
  [
    ['inspect', '--format', ''],
    ['table', 'tree', 'json'],
  ],
  [
    ['configure', '--format', ''],
    ['text', 'json'],
  ],
  [
    ['restore', '--ignore-mismatch', ''],
    ['cpu', 'driver', 'firmware'],
  ],
  [['check', '--root', ''], ['dumps']],
  [
    ['check', ''],
    ['dumps', 'job.tar'],
  ],
  [['flatten', '--output', 'jo'], ['job.tar']],
  [['checkpoint', '--parent', 'job.tar', ''], ['job']],
  [
    ['restore', 'jo'],
    ['job', 'job.tar'],
  ],
  [['restore', 'ol'], ['old-job']],
  [['restore', 'job.tar', 'du'], ['dumps']],
  [['restore', 'job.tar', '--ke'], []],
  [
    ['cancel', ''],
    ['99', '4711'],
  ],
  [['watch', '--format', 'json', '47'], ['4711']],
  [['cancel', '--reason', ''], []],
  [['sessions', 'x'], []],
  [['nothing', ''], []],
];

for (const [shell, ask] of Object.entries(shells)) {
  test(`${shell} offers what fits`, { skip: isMissing(shell) }, async (t) => {
    const folder = await home(t);
    for (const [words, offered] of asks) {
      assert.deepEqual(ask(folder, words), [...offered].sort(), words.join(' '));
    }
    const joined = ask(folder, ['verify', '--format=j']).map((word) =>
      word.replace(/^--format=/, ''),
    );
    assert.deepEqual(joined, ['json']);
  });

  test(`${shell} offers every option of every verb`, { skip: isMissing(shell) }, async (t) => {
    const folder = await home(t);
    for (const verb of verbs) {
      const options = [...verb.options.map(({ long }) => long ?? ''), '--help'].sort();
      const offered = ask(folder, [verb.name(), '--']).map((word) => word.replace(/=$/, ''));
      assert.deepEqual(offered, options, verb.name());
    }
    assert.deepEqual(ask(folder, ['--']), ['--help', '--version']);
  });
}
