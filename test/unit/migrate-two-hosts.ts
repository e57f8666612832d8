/**
 * Two hosts in memory, on which both sides of a migration run as they are: src/migrate/source-side.ts and
 * target-side.ts. What they do on their hosts is counted, and either process can be killed before or after any of it.
 */

import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { KfdError } from '../../src/errors.js';
import type { SourceRecord, TargetRecord } from '../../src/migrate/journal.js';
import { isOverAtTarget } from '../../src/migrate/protocol/lease.js';
import type { SourceState } from '../../src/migrate/protocol/source.js';
import { SourceSide } from '../../src/migrate/source-side.js';
import { ended, goOn } from '../../src/migrate/takeover.js';
import { type TargetHost, TargetSide } from '../../src/migrate/target-side.js';
import type { Message } from '../../src/migrate/wire/messages.js';
import { firstRecords, id, type Kill, lost, never, Process, wordFor } from './migrate-processes.js';

export class TwoHosts {
  readonly done: { source: string[]; target: string[] } = { source: [], target: [] };
  sourceBox: 'runs' | 'stopped' | 'none' = 'runs';
  targetBox: 'runs' | 'paused' | 'none' = 'none';
  sourceDisk: SourceRecord | undefined;
  targetDisk: TargetRecord | undefined;
  /** Words that are on their way when this many have been said are lost, and the connection with them. */
  cutAt = Number.POSITIVE_INFINITY;
  /** A connection can be made. */
  network = true;
  failStart = false;
  #kill: Kill | undefined;
  #said = 0;
  #ms = 0;
  #source = new Process();
  #target = new Process();
  #sourceSide: SourceSide | undefined;
  #targetSide: TargetSide | undefined;

  constructor(kill?: Kill) {
    this.#kill = kill;
  }

  /** From the target's consent to the end, with a new process for each one that was killed. */
  async migrate(): Promise<SourceState | undefined> {
    const { source, target } = firstRecords;
    this.#targetSide = new TargetSide(target, this.#targetHost(this.#target));
    this.#watchTarget(this.#targetSide, this.#target);
    const state = await this.#run(source, (side) => side.post({ type: 'accepted' }));
    if (state !== 'killed') return state;
    for (let left = 3; left > 0; left -= 1) {
      // The next command removes such a record, and begins anew: src/cli/migrate-unfinished.ts.
      if (this.sourceDisk === undefined || this.sourceDisk.phase === 'returned') return undefined;
      const next = await this.#run(this.sourceDisk, (side) => side.restart());
      if (next !== 'killed') return next;
    }
    throw new Error('it never ends');
  }

  /** Exactly one side runs it, when all that was begun has ended. */
  assertOne(): void {
    const running = [this.sourceBox, this.targetBox].filter((box) => box === 'runs');
    assert.equal(running.length, 1, `${this.sourceBox} here, ${this.targetBox} there`);
  }

  async #run(record: SourceRecord, begin: (side: SourceSide) => Promise<void> | void) {
    const process = new Process();
    this.#source = process;
    process.connected = record.phase === 'asking';
    const side = new SourceSide(record, this.#sourceHost(process, record));
    this.#sourceSide = side;
    const killed = new Promise<'killed'>((resolve) => {
      this.#onSourceKilled = () => resolve('killed');
    });
    await begin(side);
    side.ended.catch(() => undefined);
    const end = await Promise.race([side.ended, killed]);
    if (end === 'killed') this.#loseTarget();
    return end;
  }

  #onSourceKilled: () => void = () => undefined;

  /** Counts one thing that a side does, and kills it there if that is asked for. */
  async #act<T>(
    side: 'source' | 'target',
    process: Process,
    name: string,
    work: () => T,
  ): Promise<T> {
    if (!process.alive) return never();
    const at = this.done[side].push(name) - 1;
    const isHere = this.#kill?.side === side && this.#kill.at === at;
    if (isHere && this.#kill?.moment === 'before') return this.#die(side, process);
    const result = work();
    this.#assertNotTwo();
    if (isHere) return this.#die(side, process);
    await turn();
    // Meanwhile it may have been killed: nothing comes of it then.
    return process.alive ? result : never();
  }

  #die(side: 'source' | 'target', process: Process): Promise<never> {
    this.#kill = undefined;
    process.alive = false;
    if (side === 'source') this.#onSourceKilled();
    else this.#loseSource();
    return never();
  }

  #assertNotTwo(): void {
    assert.ok(this.sourceBox !== 'runs' || this.targetBox !== 'runs', 'never two');
  }

  #loseSource(): void {
    const process = this.#source;
    if (!process.alive || !process.connected) return;
    process.connected = false;
    setImmediate(() => {
      if (process.alive) this.#sourceSide?.post({ type: 'lost', error: lost });
    });
  }

  #loseTarget(): void {
    const process = this.#target;
    if (!process.alive || !process.connected) return;
    process.connected = false;
    const side = this.#targetSide;
    setImmediate(() => {
      if (process.alive) void side?.post({ type: 'lost', error: lost });
    });
  }

  /** A word on its way. */
  #send(deliver: () => void): void {
    this.#said += 1;
    if (this.#said === this.cutAt) {
      this.#loseSource();
      this.#loseTarget();
      return;
    }
    setImmediate(deliver);
  }

  /** The time goes on with each look at it. The guard has looked before anybody else. */
  async #now() {
    this.#ms += 20;
    const { deadline, phase } = this.targetDisk ?? {};
    const now = { bootId: 'x', ms: this.#ms };
    const isWatched = phase === 'ready' || phase === 'starting' || phase === 'resumed';
    if (deadline !== undefined && isWatched && isOverAtTarget(deadline, now)) await this.#guard();
    return now;
  }

  async #guard(): Promise<void> {
    const before = this.#target;
    before.alive = false;
    if (before.connected) this.#loseSource();
    const process = new Process();
    process.connected = false;
    this.#target = process;
    const record = this.targetDisk;
    if (record !== undefined)
      await goOn(record, this.#targetHost(process), async () => this.targetBox);
    process.alive = false;
  }

  #sourceHost(process: Process, { phase }: SourceRecord) {
    const act = <T>(name: string, work: () => T) => this.#act('source', process, name, work);
    return {
      now: () => this.#now(),
      wait: async (_: number, signal: AbortSignal) => {
        await turn();
        if (!process.alive) return never();
        signal.throwIfAborted();
      },
      write: (record: SourceRecord) =>
        act(`write ${record.phase}`, () => {
          this.sourceDisk = record;
        }),
      removeRecord: () =>
        act('remove record', () => {
          this.sourceDisk = undefined;
        }),
      stop: () =>
        act('stop', () => {
          this.sourceBox = 'stopped';
        }),
      cancelStop: () => undefined,
      drop: () => {
        this.#loseSource();
        this.#loseTarget();
      },
      send: () => act('send', () => 7),
      say: (message: Message) =>
        void act(`say ${message.type}`, () => this.#toTarget(process, message)),
      connect: (signal: AbortSignal) => this.#connect(process, signal),
      bringBack: () =>
        act(`bring back ${phase}`, () => {
          assert.notEqual(this.sourceBox, 'none', 'there is something to bring back');
          this.sourceBox = 'runs';
        }),
      forget: () =>
        act('forget', () => {
          assert.equal(this.targetBox, 'runs', 'the target has it');
          this.sourceBox = 'none';
        }),
    };
  }

  #toTarget(process: Process, message: Message): void {
    if (!process.connected) return;
    const [there, side] = [this.#target, this.#targetSide];
    this.#send(() => {
      if (there.alive && side !== undefined) void wordFor(side, message);
    });
  }

  async #connect(process: Process, signal: AbortSignal): Promise<void> {
    // The end of a process is seen by the one that takes its place.
    while (!this.network || (this.#target.alive && this.#target.connected)) {
      signal.throwIfAborted();
      await turn();
      if (!process.alive) return never();
      await this.#now();
    }
    const before = this.#targetSide;
    while (this.#target.alive && before?.phase === 'starting') await turn();
    await turn();
    if (!process.alive) return never();
    this.#target.alive = false;
    const there = new Process();
    this.#target = there;
    const record = this.targetDisk ?? ended(id);
    const host = this.#targetHost(there);
    this.#targetSide = await Promise.race([
      goOn(record, host, async () => this.targetBox),
      there.dead,
    ]);
    if (this.#targetSide === undefined) return this.#connect(process, signal);
    this.#watchTarget(this.#targetSide, there);
    process.connected = true;
  }

  #watchTarget(side: TargetSide, process: Process): void {
    side.left.then(
      () => {
        process.alive = false;
      },
      () => undefined,
    );
  }

  #targetHost(process: Process): TargetHost {
    const act = <T>(name: string, work: () => T) => this.#act('target', process, name, work);
    return {
      now: () => this.#now(),
      write: (record) =>
        act(`write ${record.phase}`, () => {
          this.targetDisk = record;
        }),
      removeRecord: () =>
        act('remove record', () => {
          this.targetDisk = undefined;
        }),
      arm: () => act('arm', () => undefined),
      start: () =>
        act('start', () => {
          if (this.failStart) throw new KfdError('E_VRAM', 'restore: no room');
          this.targetBox = 'runs';
        }),
      pause: () =>
        act('pause', () => {
          if (this.targetBox === 'runs') this.targetBox = 'paused';
        }),
      unpause: () =>
        act('unpause', () => {
          if (this.targetBox === 'paused') this.targetBox = 'runs';
        }),
      remove: () =>
        act('remove', () => {
          assert.notEqual(this.sourceBox, 'none', 'the last copy is kept');
          this.targetBox = 'none';
        }),
      removeContents: () => act('remove contents', () => undefined),
      say: (message) => void act(`say ${message.type}`, () => this.#toSource(process, message)),
    };
  }

  #toSource(process: Process, message: Message): void {
    if (!process.connected) return;
    const [there, side] = [this.#source, this.#sourceSide];
    this.#send(() => {
      if (there.alive && there.connected) side?.hear(message);
    });
  }
}
