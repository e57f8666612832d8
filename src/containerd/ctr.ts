/** `ctr` for one namespace of containerd, and what it says of a container and its task. */

import * as v from 'valibot';
import type { TaskName } from '../criu/task-link.js';
import { KfdError } from '../errors.js';
import { missing, type Run, type RunResult } from '../os/exec.js';

/** containerd waits for its shims. */
const usualMs = 60_000;

/** containerd: pkg/identifiers/validate.go. */
export const namePattern = /^[A-Za-z0-9]+(?:[._-](?:[A-Za-z0-9]+))*$/;

const recordSchema = v.object({
  ID: v.pipe(v.string(), v.regex(namePattern)),
  Labels: v.nullish(v.record(v.string(), v.string())),
  Image: v.string(),
  Runtime: v.object({ Name: v.string(), Options: v.nullish(v.unknown()) }),
  SnapshotKey: v.string(),
  Snapshotter: v.string(),
  Spec: v.looseObject({
    process: v.nullish(v.looseObject({ terminal: v.nullish(v.boolean()) })),
    mounts: v.exactOptional(
      v.array(
        v.looseObject({ type: v.exactOptional(v.string()), source: v.exactOptional(v.string()) }),
      ),
      [],
    ),
  }),
});

/** A container as containerd has recorded it. */
export type TaskRecord = v.InferOutput<typeof recordSchema>;

/** As `ctr task ls` says. */
export type TaskStatus = 'CREATED' | 'RUNNING' | 'STOPPED' | 'PAUSED' | 'PAUSING' | 'UNKNOWN';
const statuses: readonly string[] = [
  'CREATED',
  'RUNNING',
  'STOPPED',
  'PAUSED',
  'PAUSING',
  'UNKNOWN',
] satisfies TaskStatus[];

export class Ctr {
  readonly #run: Run;
  readonly #namespace: string;

  constructor(run: Run, namespace: string) {
    this.#run = run;
    this.#namespace = namespace;
  }

  /** The whole command line. */
  words(...words: string[]): [string, ...string[]] {
    return ['ctr', '--namespace', this.#namespace, ...words];
  }

  /** Throws E_HOST where there is no ctr, E_TIMEOUT. Its failure is a result. */
  async ask(words: readonly string[], timeoutMs = usualMs): Promise<RunResult> {
    const [program, ...all] = this.words(...words);
    const result = await this.#run(program, all, { timeoutMs });
    if (result === undefined) throw missing('ctr', new Error('not in PATH'));
    if (result.status !== undefined) return result;
    throw new KfdError('E_TIMEOUT', `ctr ${words.slice(0, 2).join(' ')}: did not end in time`, {
      hint: 'see "journalctl --unit containerd"',
    });
  }

  /** Throws as `ask`, and E_HOST with ctr's reason. */
  async must(words: readonly string[], timeoutMs = usualMs): Promise<string> {
    const result = await this.ask(words, timeoutMs);
    if (result.status === 0) return result.stdout;
    throw refused(words.slice(0, 2).join(' '), result);
  }

  /** undefined: there is no such container. Throws as `must`, and E_HOST for unexpected output. */
  async record(id: string): Promise<TaskRecord | undefined> {
    const found = await this.ask(['container', 'info', id]);
    if (found.status !== 0) {
      if (/not found/.test(found.stderr)) return undefined;
      throw refused('container info', found);
    }
    return recordIn(found.stdout, `ctr container info ${id}`);
  }

  /** undefined: the container has no task. Throws as `must`. */
  async status(id: string, timeoutMs = usualMs): Promise<TaskStatus | undefined> {
    const listed = await this.must(['task', 'ls'], timeoutMs);
    const line = listed.split('\n').find((one) => one.split(/\s+/)[0] === id);
    const status = line?.trim().split(/\s+/).at(-1);
    if (status === undefined) return undefined;
    if (statuses.includes(status)) return status as TaskStatus;
    throw new KfdError('E_HOST', `ctr task ls: ${id} is "${status}"`, {
      hint: 'update containerd',
    });
  }

  /** The digest of an image without its algorithm. undefined: there is no such image. Throws E_HOST, E_TIMEOUT. */
  async imageDigest(name: string): Promise<string | undefined> {
    const listed = await this.must(['image', 'ls', `name==${name}`]);
    const line = listed.split('\n').find((one) => one.split(/\s+/)[0] === name);
    return /\ssha256:([0-9a-f]{64})\s/.exec(line ?? '')?.[1];
  }

  /** The folder of its content store, which is beside those of its snapshots. undefined: it is not told. */
  async contentFolder(): Promise<string | undefined> {
    const { stdout } = await this.ask(['plugins', 'ls', '--detailed', 'id==content']);
    return /^\s+root\s+(\/.*\S)\s*$/m.exec(stdout)?.[1];
  }

  /** Bytes that a container's snapshot has beside its image. undefined: it is not told. Throws E_HOST, E_TIMEOUT. */
  async changedBytes({
    Snapshotter: snapshotter,
    SnapshotKey: key,
  }: Pick<TaskRecord, 'Snapshotter' | 'SnapshotKey'>): Promise<number | undefined> {
    const words = ['snapshot', '--snapshotter', snapshotter, 'usage', '-b', key];
    const { status, stdout } = await this.ask(words);
    const line = stdout.split('\n').find((one) => one.split(/\s+/)[0] === key);
    const bytes = /^\S+\s+(\d{1,15})\s/.exec(line ?? '')?.[1];
    return status !== 0 || bytes === undefined ? undefined : Number(bytes);
  }

  /** Pids of the task's processes. Throws as `must`. */
  async pids({ id }: Pick<TaskName, 'id'>): Promise<number[]> {
    const listed = await this.must(['task', 'ps', id]);
    return [...listed.matchAll(/^(\d{1,9})\s/gm)].map(([, pid]) => Number(pid));
  }
}

/** The record in a document of JSON, which `subject` names. Throws E_HOST for another one. */
export function recordIn(document: string, subject: string): TaskRecord {
  try {
    return v.parse(recordSchema, JSON.parse(document));
  } catch (cause) {
    const hint = 'update containerd, or move the container by an image';
    throw new KfdError('E_HOST', `${subject}: is not understood`, { cause, hint });
  }
}

function refused(what: string, { status, stderr }: RunResult): KfdError {
  const said = stderr.trimEnd().split('\n').at(-1) ?? '';
  const tail = said === '' ? '' : `: ${said}`;
  return new KfdError('E_HOST', `ctr ${what}: ended with status ${status}${tail}`, {
    hint: 'run "ctr task ls" and look at the container',
  });
}
