/**
 * The spare session: `main.js spare` loads everything, and waits until a launcher has work for it
 * (native/launcher/spare.cc). It takes one checkpoint or restore, like any other session, and ends. systemd starts the
 * next one: packaging/system/kfd-checkpoint-spare.service.
 */

import { mkdirSync, readlinkSync, statSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { runFolder } from '../criu/state-folder.js';
import { type Delivery, type Descriptor, type Listener, native } from '../native.js';
import type { SessionRequest } from './context.js';
import type { Message } from './plugin/message.js';
import { messageType } from './plugin/wire.js';

/** native/launcher/spare.cc has it, too. */
export const spareSocket = join(runFolder, 'spare.sock');

export interface HandedOver {
  readonly request: SessionRequest;
  /** Gets "ready" or the reason of a failure. */
  readonly ready: Descriptor;
}

/** Nothing has begun: systemd starts the next spare session. */
export class SpareEnded extends Error {}

/** What launcher and session must have seen alike: native/launcher/spare.cc. Throws Node's error. */
function agreement(program: string): string {
  const { ino, ctimeNs } = statSync(program, { bigint: true });
  const second = 1_000_000_000n;
  const namespaces = ['mnt', 'pid'].map((kind) => readlinkSync(`/proc/self/ns/${kind}`));
  return [ino, ctimeNs / second, ctimeNs % second, ...namespaces].join(' ');
}

/** Throws SpareEnded for anything else than work. */
export function workOf({ args, body, fds }: Message): HandedOver {
  const [isRestore, criuPid] = args;
  const imageDirectory = body.toString('utf8');
  const [ready, ...more] = fds;
  if (
    (isRestore !== 0 && isRestore !== 1) ||
    criuPid === undefined ||
    criuPid <= 0 ||
    !/^\/proc\/\d+\/fd\/\d+$/.test(imageDirectory) ||
    ready === undefined ||
    more.length > 0
  ) {
    throw new SpareEnded(`no work: ${args.join(' ')} ${imageDirectory}, ${fds.length} descriptors`);
  }
  return {
    request: { operation: isRestore === 1 ? 'restore' : 'dump', criuPid, imageDirectory },
    ready,
  };
}

class Spare {
  readonly #program: string;
  readonly #agreed: string;
  readonly #settle: (outcome: HandedOver | SpareEnded) => void;
  #listener: Listener | undefined;
  /** The launcher that was promised this session. */
  #promised: number | undefined;

  /** `agreed`: what the program was when this process began. */
  constructor(program: string, agreed: string, settle: (outcome: HandedOver | SpareEnded) => void) {
    this.#program = program;
    this.#agreed = agreed;
    this.#settle = settle;
    mkdirSync(runFolder, { recursive: true, mode: 0o700 });
    this.#listener = new (native().Listener)(spareSocket, (delivery) => this.#hear(delivery));
  }

  /**
   * systemd stops the unit with a signal of its own (KillSignal=). A session at work goes on, and so does one that is
   * promised: its launcher has no other any more.
   */
  stop(): void {
    if (this.#listener === undefined || this.#promised !== undefined) return;
    this.#end(new SpareEnded('the unit is stopped'));
  }

  #end(outcome: HandedOver | SpareEnded): void {
    this.#listener?.close();
    this.#listener = undefined;
    this.#settle(outcome);
  }

  #hear(delivery: Delivery): void {
    if (this.#listener === undefined) return; // this was on its way before the socket was closed
    if (delivery.deaf !== undefined) {
      this.#end(new SpareEnded(`nobody is heard: ${delivery.deaf}`));
    } else if (delivery.closed === true) {
      if (delivery.peer === this.#promised) this.#end(new SpareEnded('the launcher has gone'));
    } else if (delivery.type === messageType.spareWanted) {
      this.#promise(delivery, this.#listener);
    } else if (delivery.peer === this.#promised && delivery.type === messageType.spareBegin) {
      this.#begin(delivery);
    }
  }

  #promise({ peer, body }: Message, listener: Listener): void {
    const refuse = (reason: string) => listener.reply(peer, messageType.error, [], reason, []);
    try {
      if (this.#promised !== undefined) refuse('has work');
      else if (agreement(this.#program) !== this.#agreed) {
        refuse('the program was replaced');
        this.#end(new SpareEnded('the program was replaced'));
      } else if (body.toString('utf8') !== this.#agreed) refuse('another program or namespace');
      else {
        this.#promised = peer;
        listener.reply(peer, messageType.ok, [], '', []);
      }
    } catch (error) {
      // The launcher has gone. What is promised to another one stays so.
      if (this.#promised === undefined || this.#promised === peer)
        this.#end(new SpareEnded(String(error)));
    }
  }

  #begin(message: Message): void {
    try {
      this.#end(workOf(message));
    } catch (error) {
      this.#end(error instanceof SpareEnded ? error : new SpareEnded(String(error)));
    }
  }
}

/** Between two attempts to listen while another spare session does. */
const againMs = 1000;

/**
 * Waits for work, and before that for the end of another spare session: a migration has one of its own beside that of
 * the unit. Rejects with SpareEnded when there will be no work, and with KFD_IO or Node's error where it cannot listen.
 */
export async function waitForWork(program: string): Promise<HandedOver> {
  const agreed = agreement(program);
  const outcome = await new Promise<HandedOver | SpareEnded>((settle, reject) => {
    let spare: Spare | undefined;
    let next: NodeJS.Timeout | undefined;
    const listen = () => {
      try {
        spare = new Spare(program, agreed, settle);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).errno !== constants.errno.EADDRINUSE) reject(error);
        else next = setTimeout(listen, againMs);
      }
    };
    process.on('SIGUSR2', () => {
      if (spare !== undefined) return spare.stop();
      clearTimeout(next);
      settle(new SpareEnded('the unit is stopped'));
    });
    listen();
  });
  if (outcome instanceof SpareEnded) throw outcome;
  return outcome;
}
