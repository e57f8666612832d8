/** The other end of a migration: what ssh starts on the target. */

import type { Readable, Writable } from 'node:stream';
import { asKfdError, KfdError } from '../errors.js';
import { readHost } from '../gpu/host.js';
import { Messages } from '../migrate/connection.js';
import { runFolder } from '../migrate/places.js';
import { questionOf } from '../migrate/question/documents.js';
import { targetFacts } from '../migrate/question/target-facts.js';
import { failureOf, type Message } from '../migrate/wire/messages.js';
import { version } from '../version.js';
import { findingsOf } from './check.js';
import { TargetEnd, type TargetServices } from './migrate-target-end.js';
import { ifKnown } from './restorability.js';

/**
 * Answers until the connection ends, and goes on then as long as there is work. `root`: folder of the system. A failure
 * is told to the source and thrown then.
 */
export async function serveSource(
  input: Readable,
  output: Writable,
  services: TargetServices,
  root: string,
): Promise<void> {
  const messages = new Messages(input, output);
  const end = new TargetEnd((message) => messages.send(message), services, root);
  try {
    for (;;) {
      const message = await Promise.race([messages.next(), end.broken]);
      if (message === undefined) break;
      if (message.type === 'question') messages.send(await answerTo(message, services, root));
      else await end.take(message);
    }
    await end.lost(new KfdError('E_IO', 'migration: the connection has gone'));
  } catch (error) {
    const known = asKfdError(error, 'migration');
    messages.send({ type: 'failed', failure: failureOf(known) });
    await end.lost(known);
    throw known;
  } finally {
    await end.close();
    messages.end();
    input.destroy();
  }
}

async function answerTo(
  message: Extract<Message, { type: 'question' }>,
  { run, native, prefix }: TargetServices,
  root: string,
): Promise<Message> {
  const question = questionOf(message.question);
  const host = await readHost({
    root,
    kfdVersion: ifKnown(native.kfdVersion),
    xsaveBytes: ifKnown(native.xsaveBytes),
  });
  const nodeVersion = process.versions.node;
  const findings = await findingsOf({ root, prefix, run, native, nodeVersion });
  const failures = findings
    .filter(({ status }) => status === 'fail')
    .map(({ name, message: text, hint = 'run "kfd-checkpoint check" there' }) => ({
      name,
      message: text.slice(0, 4096),
      hint,
    }));
  const context = { root, run, release: version, host, failures, memory: runFolder };
  const facts = await targetFacts(question, context);
  return { type: 'facts', facts };
}
