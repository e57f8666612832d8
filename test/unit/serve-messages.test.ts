/** Answers to messages, without a socket: what a peer gets, and what becomes of one that has gone. */

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { KfdError } from '../../src/errors.js';
import { createLogger } from '../../src/log.js';
import type { Delivery, Descriptor } from '../../src/native.js';
import { PendingAnswer } from '../../src/session/plugin/pending-answer.js';
import {
  asSessionError,
  type Handler,
  serveMessages,
} from '../../src/session/plugin/serve-messages.js';
import { messageType } from '../../src/session/plugin/wire.js';
import { temporaryFolder } from './paths.js';

const gone = () => {
  throw Object.assign(new Error('the peer is gone'), { code: 'KFD_IO' });
};

async function served(t: TestContext, handler: Handler, everyMs?: number) {
  const logFile = join(await temporaryFolder(t), 'log');
  const replies: unknown[][] = [];
  const errors: KfdError[] = [];
  let reply = (...answer: unknown[]) => void replies.push(answer);
  let deliver: (delivery: Delivery) => void = () => undefined;
  const context = {
    log: createLogger({ file: logFile }),
    logPath: '/the/log',
    listen(onDelivery: typeof deliver) {
      deliver = onDelivery;
      return { reply: (...answer: unknown[]) => reply(...answer), close: () => undefined };
    },
  };
  const handlers = new Map([[messageType.stage, handler]]);
  serveMessages(context, handlers, (error) => void errors.push(error), everyMs);
  const send = () =>
    deliver({ type: messageType.stage, peer: 3, pid: 9, args: [], body: Buffer.of(), fds: [] });
  return {
    ...{ replies, errors, send, end: deliver },
    peerGoes: () => {
      reply = gone;
    },
    log: () => readFile(logFile, 'utf8'),
  };
}

const turn = () => new Promise(setImmediate);

test('an answer has numbers, text and descriptors, as far as the handler gives them', async (t) => {
  const descriptor = { fd: 17, close() {} } as Descriptor;
  const answers = [{}, { args: [1, 2], text: 'text', fds: [descriptor] }, undefined];
  const all = await served(t, () => answers.shift());
  for (let n = 0; n < 3; n++) all.send();
  await turn();
  assert.deepEqual(all.replies, [
    [3, messageType.ok, [], '', []],
    [3, messageType.ok, [1, 2], 'text', [descriptor]],
  ]);
  assert.deepEqual(all.errors, []);
});

test('who waits hears that the session works, until it has its answer', async (t) => {
  let give: (answer: object) => void = () => undefined;
  const answer = new Promise<object>((resolve) => {
    give = resolve;
  });
  const all = await served(t, () => answer, 1);
  all.send();
  while (all.replies.length < 3) await delay(1);
  for (const reply of all.replies) assert.deepEqual(reply, [3, messageType.working, [], '', []]);
  give({});
  await turn();
  const count = all.replies.length;
  assert.deepEqual(all.replies.at(-1), [3, messageType.ok, [], '', []]);
  await delay(20);
  assert.equal(all.replies.length, count);
});

test('a peer that has gone harms nobody: the session hears of the error, and the log has it', async (t) => {
  const waiting = await served(t, () => delay(20), 1);
  waiting.peerGoes();
  waiting.send();
  await delay(40);
  assert.deepEqual(waiting.errors, [], 'nothing to answer');
  const all = await served(t, () => {
    throw new KfdError('E_VRAM', 'gpu: full');
  });
  all.peerGoes();
  all.send();
  await turn();
  assert.deepEqual(
    all.errors.map(({ code, message }) => `${code}: ${message}`),
    ['E_VRAM: gpu: full'],
  );
  assert.match(await all.log(), /"message":"gpu: full"/);
  const answered = await served(t, () => ({}));
  answered.peerGoes();
  answered.send();
  await turn();
  assert.deepEqual(
    answered.errors.map(({ code }) => code),
    ['E_IO'],
    'an answer that could not be given',
  );
});

test('the end of a peer is no message, and a dropped one is logged', async (t) => {
  const all = await served(t, () => assert.fail('a message of nobody'));
  all.end({ peer: 3, pid: 9, closed: true });
  assert.equal(await all.log(), '');
  all.end({ peer: 3, pid: 9, closed: true, reason: 'sent too much' });
  await turn();
  assert.deepEqual(all.replies, []);
  assert.match(await all.log(), /"pid":9,"reason":"sent too much","msg":"peer dropped"/);
});

test('a session that can accept nobody fails, with a next step', async (t) => {
  const all = await served(t, () => assert.fail('a message of nobody'));
  all.end({ peer: 0, pid: 0, closed: true, deaf: 'Too many open files' });
  assert.deepEqual(
    all.errors.map(({ code, message }) => `${code}: ${message}`),
    ['E_IO: session socket: no connection can be accepted: Too many open files'],
  );
  assert.match(all.errors[0]?.hint ?? '', /descriptors/);
  await turn();
  assert.deepEqual(all.replies, []);
  assert.match(await all.log(), /"msg":"nobody is accepted"/);
});

test('only errors of the addon and of Node have a kind by their code', () => {
  const coded = (code: string) => asSessionError({ code, message: 'no error' }).code;
  assert.deepEqual([coded('KFD_GPU'), coded('ENOENT')], ['E_INTERNAL', 'E_INTERNAL']);
});

test('one question at a time is pending; without one nothing is answered', async () => {
  const pending = new PendingAnswer();
  pending.give({ text: 'to nobody' });
  pending.refuse(new KfdError('E_IO', 'to nobody'));
  const begun: string[] = [];
  const ask = (name: string) => pending.ask(() => void begun.push(name));
  const first = ask('first');
  await assert.rejects(ask('second'), {
    code: 'E_PROTOCOL',
    message: 'session: asked before the last answer was given',
  });
  pending.give({ text: 'a' });
  pending.refuse(new KfdError('E_IO', 'too late'));
  assert.deepEqual(await first, { text: 'a' });
  const refused = ask('third');
  pending.refuse(new KfdError('E_IO', 'no'));
  await assert.rejects(refused, { code: 'E_IO', message: 'no' });
  let settled = false;
  void ask('fourth').finally(() => {
    settled = true;
  });
  pending.drop();
  const last = ask('fifth');
  pending.give({ text: 'b' });
  assert.deepEqual(await last, { text: 'b' });
  assert.equal(settled, false, 'its asker has gone');
  assert.deepEqual(begun, ['first', 'third', 'fourth', 'fifth']);
});
