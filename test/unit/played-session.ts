/** The surroundings of a session whose plugin and launcher are played: no GPU, no CRIU. */

import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { type Config, defaultConfig } from '../../src/config.js';
import { tellFreeze } from '../../src/criu/freeze-moment.js';
import { createLogger } from '../../src/log.js';
import type { ContentsSender, Delivery, Descriptor } from '../../src/native.js';
import { HostStaging } from '../../src/session/contents/staging.js';
import { Transfers } from '../../src/session/contents/transfers.js';
import type { Operation, SessionContext } from '../../src/session/context.js';
import { Phases } from '../../src/session/phases.js';
import { temporaryFolder } from './paths.js';

/** An answer of the session. */
export interface Reply {
  readonly type: number;
  readonly args: readonly number[];
  readonly text: string;
  readonly fds: readonly Descriptor[];
}

export interface Sent {
  readonly type: number;
  readonly args?: readonly number[];
  readonly body?: string | Buffer;
  readonly fds?: readonly Descriptor[];
  /** The task that sends it. */
  readonly pid?: number;
}

export async function playedSession(
  t: TestContext,
  request: {
    readonly operation: Operation;
    readonly criuPid: number;
    readonly image: string;
    readonly contents?: string;
    readonly stream?: ContentsSender;
    readonly asker?: string;
  },
  bend: Partial<Config> = {},
) {
  const { image, contents = image } = request;
  const folder = await temporaryFolder(t);
  const logFile = join(folder, 'log');
  const config = { ...defaultConfig(), ...bend };
  const log = createLogger({ file: logFile });
  const transfers = new Transfers(new HostStaging(config, log, join(folder, 'staging')));
  let deliver: (delivery: Delivery) => void = () => undefined;
  const replies: Reply[] = [];
  const waiting = new Map<number, (reply: Reply) => void>();
  let peers = 0;
  const context = {
    config,
    image,
    contents,
    stream: request.stream,
    tellFreeze: () => {
      if (request.asker !== undefined) tellFreeze(request.asker);
    },
    log,
    logPath: 'log',
    phases: new Phases('prepare'),
    transfers,
    request: { ...request, imageDirectory: image },
    listen(onDelivery: typeof deliver) {
      deliver = onDelivery;
      const reply = (
        peer: number,
        type: number,
        args: readonly number[],
        text: string,
        fds: readonly Descriptor[],
      ) => {
        const given = { type, args, text, fds };
        replies.push(given);
        waiting.get(peer)?.(given);
      };
      return { reply, close() {} };
    },
  } as unknown as SessionContext;
  const post = ({ type, args = [], body = '', fds = [], pid = process.pid }: Sent): number => {
    const peer = ++peers;
    deliver({ type, args, body: Buffer.from(body as string), fds, peer, pid });
    return peer;
  };
  return {
    context,
    logFile,
    /** All answers so far. */
    replies,
    /** Sends a message and lets the session work on it. */
    async send(sent: Sent): Promise<void> {
      post(sent);
      await delay(1);
    },
    /** The answer to a message. */
    ask(sent: Sent): Promise<Reply> {
      return new Promise((resolve) => {
        waiting.set(peers + 1, resolve);
        post(sent);
      });
    },
  };
}
