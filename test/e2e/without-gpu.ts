/** A container without a GPU behaves the same with our installation, without it, and with ruins. */

import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { run } from './support/command.js';
import { plainLife } from './support/plain.js';
import { install, prefix, sessionCount, unpack } from './support/product.js';
import { scenario } from './support/suite.js';

/** What the plugin has CRIU run where a GPU is concerned. */
const copies = ['criu-action', 'kfd-checkpoint-launch'];

/** Programs of the package, and the program that its hook starts for containers with a GPU. */
const programs = [
  'hooks/precreate',
  'hooks/criu-action',
  'libexec/kfd-checkpoint-launch',
  'libexec/node',
  'dist/hooks/precreate.js',
];

/** Puts `text` in the place of every program of the package; each can still be executed. */
function overwritePrograms(text: string): void {
  for (const program of programs) {
    writeFileSync(join(prefix, program), text);
    chmodSync(join(prefix, program), 0o755);
  }
}

// Every life takes long, so damages that cannot hide each other share one.
const installations = [
  { name: 'whole', make: () => undefined },
  {
    name: 'with programs that fail, a damaged plugin in the package, without session and CLI',
    make: () => {
      writeFileSync(join(prefix, 'criu/kfd_checkpoint.so'), 'broken');
      overwritePrograms('#!/bin/sh\nexit 1\n');
      rmSync(join(prefix, 'dist/src'), { recursive: true });
    },
  },
  {
    name: 'with programs that print garbage or are empty, and a broken configuration file',
    make: () => {
      overwritePrograms('#!/bin/sh\necho garbage\n');
      writeFileSync(join(prefix, 'hooks/criu-action'), '');
      writeFileSync(join(prefix, 'libexec/kfd-checkpoint-launch'), '');
      mkdirSync('/etc/kfd-checkpoint', { recursive: true });
      writeFileSync('/etc/kfd-checkpoint/config.json', '{');
    },
  },
  {
    name: 'without the package folder, the action script and the launcher',
    make: () => {
      rmSync(prefix, { recursive: true });
      for (const name of copies) rmSync(join('/var/lib/kfd-checkpoint', name));
    },
  },
  { name: 'undone', make: () => run('kfd-checkpoint', 'configure', '--undo') },
] as const;

scenario('a container without a GPU does not notice us', async ({ engine, meet }) => {
  const sessions = sessionCount();
  try {
    for (const { name, make } of installations) {
      await meet(async () => {
        await unpack();
        await make();
      });
      await plainLife(engine, name);
    }
  } finally {
    await meet(async () => {
      rmSync('/etc/kfd-checkpoint/config.json', { force: true });
      await install();
    });
  }
  assert.equal(sessionCount(), sessions, 'sessions ran');
});
