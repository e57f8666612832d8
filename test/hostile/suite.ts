/**
 * Hostile inputs for the real program. Each input is one run in a process of its own, with limits of time, memory and
 * written bytes. A run may leave no file behind, and may print neither a stack trace nor control characters.
 */

import type { ErrorCode } from '../../src/errors.js';

export interface HostileInput {
  /** Unique for its verb within its subject. It says what is wrong with the input. */
  readonly name: string;
  readonly verb: string;
  /** Makes the input in the empty folder `dir`. Returns the arguments after the verb. */
  readonly args: (dir: string) => Promise<readonly string[]> | readonly string[];
  /** The exit status. */
  readonly status: number;
  /** The code of the error that the program ends with. */
  readonly code?: ErrorCode;
  /** Must match standard output and standard error together. */
  readonly says?: RegExp;
  /** The program, relative to `dist`; without it, the command line. It loads `src/errors.js` of the same `dist`. */
  readonly program?: string;
  /** Further environment variables. undefined removes one. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Redirections of bash for the program, for example ">/dev/full". */
  readonly streams?: string;
  /** Runs beside the program, for signals and for inputs that change. It ends before `limits.seconds`. */
  readonly during?: (run: { readonly pid: number; readonly dir: string }) => Promise<void>;
  /** The program starts podman. Without it a start of podman is a failure. */
  readonly podman?: boolean;
  /** Files that the run leaves in `dir`, relative to it. */
  readonly outputs?: readonly string[];
  readonly limits?: Partial<Limits>;
}

export interface Limits {
  /** Time on the clock. */
  readonly seconds: number;
  /** Peak of resident memory in bytes; Node.js alone takes some 60 MiB. */
  readonly memoryBytes: number;
  /** All bytes that the process writes, also into files without a name and into pipes. */
  readonly writtenBytes: number;
}

export const defaultLimits: Limits = {
  seconds: 20,
  memoryBytes: 256 << 20,
  writtenBytes: 64 << 20,
};

/** What a run did. */
export interface Outcome {
  /** undefined: ended by a signal. */
  readonly status: number | undefined;
  readonly signal: string | undefined;
  readonly stdout: string;
  readonly stderr: string;
  /** Of the last error that got an exit status. */
  readonly code: string | undefined;
  readonly seconds: number;
  readonly memoryBytes: number;
  readonly writtenBytes: number;
  readonly podmanStarts: number;
  /** Files that the run made or removed in `dir` and $TMPDIR. */
  readonly changes: readonly string[];
}

/** Everything that is wrong with the outcome; empty: as wanted. */
export function complaints(input: HostileInput, outcome: Outcome): string[] {
  const limits = { ...defaultLimits, ...input.limits };
  const text = outcome.stdout + outcome.stderr;
  const found: string[] = [];
  const complain = (wrong: boolean, what: string) => {
    if (wrong) found.push(what);
  };
  complain(outcome.signal !== undefined, `was ended by ${outcome.signal}`);
  complain(
    outcome.status !== undefined && outcome.status !== input.status,
    `status ${outcome.status} instead of ${input.status}`,
  );
  complain(outcome.code !== input.code, `code ${outcome.code} instead of ${input.code}`);
  complain(input.says !== undefined && !input.says.test(text), `does not say ${input.says}`);
  complain(outcome.seconds > limits.seconds, `took ${outcome.seconds.toFixed(1)} s`);
  complain(outcome.memoryBytes > limits.memoryBytes, `took ${mib(outcome.memoryBytes)} of memory`);
  complain(outcome.writtenBytes > limits.writtenBytes, `wrote ${mib(outcome.writtenBytes)}`);
  complain(
    /^\s+at .+[:(]\d+:\d+|node:internal|this is a bug/m.test(text),
    'prints a stack or a bug',
  );
  complain(/[^\P{C}\n]/u.test(text), 'prints control characters');
  complain(outcome.podmanStarts > 0 !== (input.podman ?? false), `${outcome.podmanStarts} podman`);
  const wanted = (input.outputs ?? []).map((name) => `+${name}`);
  complain(outcome.changes.join() !== wanted.join(), `files: ${outcome.changes.join(' ')}`);
  return found;
}

function mib(bytes: number): string {
  return `${Math.round(bytes / (1 << 20))} MiB`;
}
