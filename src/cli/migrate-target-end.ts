/** What the target does with the words of a source: one migration, from its begin or as it was recorded. */

import { existsSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { asKfdError, KfdError } from '../errors.js';
import { Control } from '../migrate/control.js';
import type { ArrivedTask } from '../migrate/engine.js';
import { engineOf } from '../migrate/engines.js';
import { bytesBelow, contentsFolders } from '../migrate/gpu-folders.js';
import { readRecord, type TargetRecord } from '../migrate/journal.js';
import { removeFiles, sweepMs } from '../migrate/leftovers.js';
import { archiveName, placesBelow } from '../migrate/places.js';
import type { HostSetting } from '../migrate/setting.js';
import { Meter, resultOf } from '../migrate/status.js';
import { prepareStore } from '../migrate/store.js';
import { reopen } from '../migrate/takeover.js';
import { type ReadyHost, targetHost } from '../migrate/target-host.js';
import { TargetSide } from '../migrate/target-side.js';
import { errorOf, type Message } from '../migrate/wire/messages.js';
import { Lock } from '../os/lock.js';
import { stage } from '../stages.js';
import { realFolders } from './contents-folders.js';
import type { CommandContext } from './context.js';
import { fitTask } from './migrate-fit.js';
import { refusal, restorabilityOf } from './restorability.js';

/** What this side of the verb needs of its context. */
export type TargetServices = Pick<CommandContext, 'run' | 'native' | 'prefix' | 'err' | 'signal'> &
  Pick<HostSetting, 'self'>;

type Begin = Extract<Message, { type: 'begin' }>;

export class TargetEnd {
  readonly #say: (message: Message) => void;
  readonly #services: TargetServices;
  readonly #root: string;
  #fail: (error: unknown) => void = () => undefined;
  #side: TargetSide | undefined;
  #lock: Lock | undefined;
  #begin: Begin | undefined;
  #ready: ReadyHost | undefined;
  #archive = '';
  #total = 0;
  #control: Control | undefined;
  readonly #meter = new Meter();
  readonly #begun = performance.now();
  /** Rejects when something was not done for sure: the next process goes on with what is recorded. */
  readonly broken: Promise<never>;

  constructor(say: (message: Message) => void, services: TargetServices, root: string) {
    this.#say = say;
    this.#services = services;
    this.#root = root;
    this.broken = new Promise((_, reject) => {
      this.#fail = reject;
    });
    this.broken.catch(() => undefined);
  }

  /** Throws E_PROTOCOL, and what makes a beginning impossible. */
  async take(message: Message): Promise<void> {
    switch (message.type) {
      case 'begin':
        return this.#prepare(message);
      case 'coming':
        this.#total = message.bytes;
        this.#ready?.prepare();
        return;
      case 'rest': {
        const side = await this.#sideOf(message.id);
        stage('migrate-target', 'received');
        // Meanwhile other words are heard.
        this.#check(message.bytes).then(
          () => side.post({ type: 'received' }),
          (error: unknown) => side.post({ type: 'fail', error: asKfdError(error, this.#archive) }),
        );
        return;
      }
      case 'grant':
      case 'yours':
      case 'done':
      case 'query':
        return (await this.#sideOf(message.id)).post({ type: message.type });
      case 'revoke': {
        const error = errorOf(message.failure, 'the source has given it up');
        return (await this.#sideOf(message.id)).post({ type: 'revoke', error });
      }
      default:
        throw new KfdError('E_PROTOCOL', `migration: "${message.type}" is no word of a source`);
    }
  }

  /** There is no connection any more. Resolves when this process has done its work. */
  async lost(error: KfdError): Promise<void> {
    if (this.#side === undefined) return;
    await this.#side.post({ type: 'lost', error });
    await this.#side.left;
  }

  async close(): Promise<void> {
    const { id = '', phase, failure } = this.#side ?? {};
    await this.#ready?.release();
    const runs = phase === 'owned' || phase === 'settled';
    await this.#control?.close(runs ? resultOf(undefined) : failure && resultOf(failure));
    if (!runs && phase !== 'ended') return this.#lock?.release();
    await removeFiles(id, placesBelow(this.#root), this.#services.run);
    await this.#lock?.remove();
  }

  async #prepare(message: Begin): Promise<void> {
    const { id, container, container_id: containerId, engine, namespace } = message;
    const places = placesBelow(this.#root);
    const until = performance.now() + sweepMs;
    const take = () => Lock.take(places.lock(id), () => performance.now() > until);
    const lock = this.#side === undefined ? await take() : undefined;
    if (lock === undefined || (await readRecord(id, 'target', places.journal)) !== undefined) {
      throw new KfdError('E_PROTOCOL', `migration ${id}: has begun already`);
    }
    this.#lock = lock;
    await this.#refuseKnown(message);
    const { store, room_bytes: bytes } = message;
    const place = store === undefined ? { bytes } : { folder: join(this.#root, store) };
    const record: TargetRecord = {
      schema_version: 1,
      id,
      side: 'target',
      phase: 'receiving',
      container,
      container_id: containerId,
      contents: await prepareStore(id, place, this.#setting()),
      lease_ms: message.lease_ms,
      ...(engine && { engine }),
      ...(namespace && { namespace }),
    };
    this.#archive = join(record.contents, archiveName);
    this.#begin = message;
    this.#ready = targetHost(record, this.#setting(), this.#say, choicesOf(message));
    await this.#adopt(new TargetSide(record, this.#ready));
    stage('migrate-target', 'begun');
    this.#say({ type: 'begun', id });
  }

  /** A target removes by the id. So nothing with this id may be here: the source's own host is no target. */
  async #refuseKnown(begin: Begin): Promise<void> {
    const { container } = begin;
    const state = await engineOf(begin, this.#setting()).container.state();
    if (state === 'none') return;
    throw new KfdError('E_HOST', `${container}: this container is on the target already`, {
      hint: 'name another host, or remove the container there',
      details: { state },
    });
  }

  async #sideOf(id: string): Promise<TargetSide> {
    if (this.#side === undefined) {
      const { side, lock } = await reopen(id, this.#setting(), this.#say);
      this.#lock = lock;
      await this.#adopt(side);
    }
    if (this.#side?.id === id) return this.#side;
    throw new KfdError('E_PROTOCOL', `migration ${id}: another one has begun on this connection`);
  }

  async #adopt(side: TargetSide): Promise<void> {
    this.#side = side;
    side.left.catch(this.#fail);
    if (side.phase === 'ended') return;
    this.#control = await Control.open(placesBelow(this.#root).control(side.id, 'target'), {
      status: () => this.#status(side),
      cancel: (reason) =>
        side.cancel(new KfdError('E_CANCELLED', `cancelled on the target: ${reason}`)),
    });
  }

  #status({ id, phase, record }: TargetSide) {
    // Other processes write them.
    this.#meter.update(bytesBelow(record.contents), this.#total);
    return {
      migration: id,
      side: 'target' as const,
      container: record.container,
      container_id: record.container_id,
      pid: process.pid,
      phase,
      elapsed_us: Math.round((performance.now() - this.#begun) * 1000),
      bytes_done: this.#meter.done,
      bytes_total: Math.max(this.#total, this.#meter.done),
      bytes_per_s: this.#meter.rate,
      cancelled: false,
    };
  }

  #setting() {
    const { run, self, native } = this.#services;
    return { root: this.#root, run, self, listPages: native.listPages };
  }

  /** All of it is there, and this host can restore it. */
  async #check(bytes: number): Promise<void> {
    const arrived = this.#begin && engineOf(this.#begin, this.#setting()).arrived;
    if (arrived === undefined) {
      const { size } = await stat(this.#archive);
      if (size !== bytes) throw incomplete(`${size} bytes of ${bytes} have arrived`);
    } else {
      await this.#fitTask(arrived);
    }
    await this.#ready?.look();
  }

  /** Of an engine whose start neither looks nor changes anything. */
  async #fitTask({ image: imageIn, record }: ArrivedTask): Promise<void> {
    const folder = dirname(this.#archive);
    const image = imageIn(folder);
    if (!existsSync(image)) throw incomplete('the archive has not arrived');
    const { gpu_map: gpuMap, ignore_mismatch: ignoreMismatch } = this.#begin ?? {};
    const folders = await realFolders(contentsFolders(folder, this.#services.native.listPages));
    const options = { root: this.#root, gpuMap, ignoreMismatch, folders, mayChange: true };
    const verdict = await restorabilityOf(image, this.#services, options);
    const refused = refusal('contents', verdict.reasons);
    if (refused !== undefined) throw refused;
    await fitTask(image, record(folder), verdict);
  }
}

function incomplete(what: string): KfdError {
  return new KfdError('E_IMAGE_CORRUPT', `contents: ${what}`, {
    hint: 'run the migration again',
  });
}

/** Options of `kfd-checkpoint restore`. */
function choicesOf({ gpu_map: map, ignore_mismatch: ignored }: Begin): string[] {
  return [
    ...(map === undefined ? [] : ['--gpu-map', map]),
    ...(ignored === undefined ? [] : ['--ignore-mismatch', ignored]),
  ];
}
