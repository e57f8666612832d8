/**
 * Programs of the target that have started before they are needed, because the container stands still meanwhile: the
 * guard, the restore, and a session. They wait for a word, and end by themselves when this process has gone.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { KfdError } from '../errors.js';
import type { Arrived, Engine } from './engine.js';
import { failureIn } from './failure-text.js';
import { contentsOptions } from './gpu-folders.js';
import type { TargetRecord } from './journal.js';
import { archiveName, placesBelow } from './places.js';
import type { HostSetting } from './setting.js';
import { SpareSession } from './spare-session.js';
import { lastLines, leaveMs, type Prompted, type Work } from './work.js';

/** The hidden verb of the guard. */
export const guardVerb = 'migrate-guard';
/** What it waits for, and what it prints when it watches. */
export const watchWord = 'watch\n';
export const armed = 'armed\n';

/** The hidden verb of the restore. Its `ownDescriptor` is a socket. */
export const restoreVerb = 'migrate-restore';
/** What it says when podman could begin, and what it waits for then. */
export const prepared = 'prepared\n';
export const goWord = 'go\n';

/** How many guards are tried, one after the other. */
const guards = 2;

export class Standby {
  readonly #record: Pick<TargetRecord, 'id' | 'contents'>;
  readonly #setting: HostSetting;
  readonly #engine: Engine;
  readonly #work: Work;
  readonly #choices: readonly string[];
  #guard: Promise<ChildProcess> | undefined;
  #restore: Promise<Prompted> | undefined;
  #session: SpareSession | undefined;

  /** `choices`: options of `kfd-checkpoint restore`. */
  constructor(
    record: Pick<TargetRecord, 'id' | 'contents'>,
    setting: HostSetting,
    engine: Engine,
    work: Work,
    choices: readonly string[],
  ) {
    this.#record = record;
    this.#setting = setting;
    this.#engine = engine;
    this.#work = work;
    this.#choices = choices;
  }

  /** Starts what is not there yet. What cannot be started is told when it is needed. */
  begin(): void {
    const { self, root } = this.#setting;
    this.#session ??= SpareSession.start(self);
    this.#guard ??= startGuard(this.#record.id, this.#setting);
    this.#guard.catch(() => undefined);
    if (!('words' in this.#engine.start)) return;
    const [node, ...before] = self;
    const words = [...before, restoreVerb, '--root', root, '--format', 'json'];
    this.#restore ??= this.#work.prompt([node, ...words], placesBelow(root).log(this.#record.id));
    this.#restore.catch(() => undefined);
  }

  /**
   * Resolves when this host can restore what has arrived, as far as the engine can look before it starts. Throws the
   * reason why it cannot.
   */
  async look(): Promise<void> {
    this.begin();
    const { start } = this.#engine;
    if (!('words' in start) || this.#restore === undefined) return;
    const { line, ended } = await this.#restore;
    line.write(`${JSON.stringify(start.words(this.#arrived))}\n`);
    const said = await Promise.race([once(line, 'data').then(([text]) => String(text)), ended]);
    if (said !== prepared) throw await this.#failure();
  }

  /** Resolves when the engine has restored the container. Throws the reason why it has not. */
  async start(): Promise<void> {
    if ((await this.#started()) !== 0) throw await this.#failure();
  }

  async #started(): Promise<number | undefined> {
    const { start } = this.#engine;
    if ('command' in start) {
      const log = placesBelow(this.#setting.root).log(this.#record.id);
      return this.#work.run(start.command(this.#arrived), { log });
    }
    if (this.#restore === undefined)
      throw new KfdError('E_INTERNAL', 'migration: nothing was looked at');
    const { line, ended } = await this.#restore;
    line.end(goWord);
    return ended;
  }

  get #arrived(): Arrived {
    const { contents: folder } = this.#record;
    const contents = contentsOptions(folder, this.#setting.listPages);
    return { folder, contents, choices: this.#choices };
  }

  /** Resolves when the guard watches. One that was killed has a successor. Throws E_HOST where that does not help. */
  async arm(): Promise<void> {
    let said = '';
    for (let left = guards; left > 0; left -= 1) {
      this.#guard ??= startGuard(this.#record.id, this.#setting);
      said = await toldToWatch(await this.#guard);
      if (said === armed) return;
      this.#guard = undefined;
    }
    throw new KfdError('E_HOST', `migration: the guard does not watch: ${said.trimEnd()}`, {
      hint: `see ${placesBelow(this.#setting.root).guardLog(this.#record.id)}`,
    });
  }

  /** What still waits goes. A guard that watches and a restore at work stay. Never throws. */
  async release(): Promise<void> {
    this.#session?.release();
    const guard = await this.#guard?.catch(() => undefined);
    guard?.stdin?.destroy();
    const waiting = await this.#restore?.catch(() => undefined);
    waiting?.line.destroy();
  }

  /** The same, and waits for its end. Throws E_HOST for a restore that does not end. */
  async end(): Promise<void> {
    await this.release();
    if (this.#restore === undefined) return;
    const until = performance.now() + leaveMs;
    await this.#work.settle(() => performance.now() > until);
  }

  async #failure(): Promise<KfdError> {
    const { id, contents } = this.#record;
    const lines = await lastLines(placesBelow(this.#setting.root).log(id));
    const named = lines.map((line) => line.replaceAll(join(contents, archiveName), 'contents'));
    return failureIn(named, 'restore');
  }
}

/** What it says: `armed`, or how it has ended. */
async function toldToWatch(child: ChildProcess): Promise<string> {
  const stdout = child.stdout as Readable;
  const stdin = child.stdin as Writable;
  const told = Promise.race([
    once(stdout, 'data').then(([text]) => String(text)),
    once(child, 'exit').then(([status]) => `ended with status ${status}`),
  ]);
  stdin.on('error', () => undefined).end(watchWord);
  const hasEnded = child.exitCode !== null || child.signalCode !== null;
  const said = hasEnded ? `ended with status ${child.exitCode}` : await told;
  stdout.destroy();
  child.unref();
  return said;
}

/** It lives in a session of its own, and does not notice that ssh ends. */
async function startGuard(id: string, { root, self }: HostSetting): Promise<ChildProcess> {
  const [node, ...before] = self;
  const log = placesBelow(root).guardLog(id);
  await mkdir(dirname(log), { recursive: true, mode: 0o700 });
  const file = await open(log, 'a', 0o600);
  try {
    const child = spawn(node, [...before, guardVerb, '--root', root, id], {
      detached: true,
      cwd: '/',
      stdio: ['pipe', 'pipe', file.fd],
    });
    await once(child, 'spawn');
    return child;
  } finally {
    await file.close();
  }
}
