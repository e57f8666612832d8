/** A command line run in memory: what it printed, and its exit code. */

import assert from 'node:assert/strict';
import type { CommandContext, NativeServices } from '../../src/cli/context.js';
import { runCommandLine } from '../../src/cli/program.js';
import { type Run, runThrough } from '../../src/os/exec.js';
import { fakeVerifier, zstdProgram } from './archive-builder.js';

export const fakeNative: NativeServices = {
  verifier: () => fakeVerifier,
  zstdDecoder: zstdProgram,
  imageFlattener: () => {
    throw new Error('no test of this asks for it');
  },
  storeMaker: () => {
    throw new Error('no test of this makes stores');
  },
  unpackContents: async () => {
    throw new Error('no test of this unpacks contents');
  },
  sendFile: () => {
    throw new Error('no test of this sends a file');
  },
  receiveFile: async () => {
    throw new Error('no test of this takes a file');
  },
  forwardFile: () => {
    throw new Error('no test of this takes a task');
  },
  kfdVersion: () => '1.17',
  listPages: () => {
    throw new Error('no test of this lists a pages file');
  },
  xsaveBytes: () => 2440,
  kfdRestoreTakes: () => {
    throw new Error('no GPU of this has several dies');
  },
  tryCopies: async () => {
    throw new Error('no test of this copies');
  },
  tryPauses: async () => {
    throw new Error('no test of this pauses');
  },
};

/** The error that a verb with `--format json` has printed. */
export function errorIn(stderr: string) {
  const line = stderr.trimEnd().split('\n').at(-1) ?? '';
  const { error } = JSON.parse(line) as {
    readonly error: {
      readonly code: string;
      readonly message: string;
      readonly hint: string;
      readonly details?: Readonly<Record<string, unknown>>;
    };
  };
  return error;
}

/** Programs by "command first-argument"; anything else is not in PATH. */
export function fakeRun(outputs: Readonly<Record<string, string | number>>): Run {
  return async (command, args) => {
    const output = outputs[`${command} ${args[0]}`];
    if (output === undefined) return undefined;
    return typeof output === 'number'
      ? { status: output, stdout: '', stderr: 'Error (cr-check.c:1): no such thing\n' }
      : { status: 0, stdout: output, stderr: '' };
  };
}

export async function cli(args: readonly string[], over: Partial<CommandContext> = {}) {
  let stdout = '';
  let stderr = '';
  const code = await runCommandLine(args, {
    out: (text) => {
      stdout += text;
    },
    err: (text) => {
      stderr += text;
    },
    isTerminal: false,
    columns: () => 200,
    run: fakeRun({}),
    runThrough: async () => 0,
    prefix: '/usr/lib/kfd-checkpoint',
    native: fakeNative,
    whyNotRoot: async () => undefined,
    signal: new AbortController().signal,
    ...over,
  });
  return { code, stdout, stderr };
}

/** Runs a verb. Of all programs only tar is there. */
export function cliWithTar(...args: string[]) {
  const tar: typeof runThrough = async (command, ...rest) => {
    assert.equal(command, 'tar');
    return runThrough(command, ...rest);
  };
  return cli(args, { runThrough: tar });
}
