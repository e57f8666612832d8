/** The other end of a migration: what ssh starts on the target. */

import type { Readable, Writable } from 'node:stream';
import { asKfdError, KfdError } from '../errors.js';
import { readHost } from '../gpu/host.js';
import { Messages } from '../migrate/connection.js';
import { questionOf } from '../migrate/question/documents.js';
import { targetFacts } from '../migrate/question/target-facts.js';
import { failureOf, type Message } from '../migrate/wire/messages.js';
import { version } from '../version.js';
import { findingsOf } from './check.js';
import type { CommandContext } from './context.js';
import { ifKnown } from './restorability.js';

/** What this side of the verb needs of its context. */
export type TargetServices = Pick<CommandContext, 'run' | 'native' | 'prefix'>;

/**
 * Answers until the connection ends. `root`: folder of the system. A failure is told to the source and thrown then.
 */
export async function serveSource(
  input: Readable,
  output: Writable,
  services: TargetServices,
  root: string,
): Promise<void> {
  const messages = new Messages(input, output);
  try {
    for (;;) {
      const message = await messages.next();
      if (message === undefined) return;
      messages.send(await answerTo(message, services, root));
    }
  } catch (error) {
    const known = asKfdError(error, 'migration');
    messages.send({ type: 'failed', failure: failureOf(known) });
    throw known;
  } finally {
    messages.end();
  }
}

async function answerTo(
  message: Message,
  { run, native, prefix }: TargetServices,
  root: string,
): Promise<Message> {
  if (message.type !== 'question') {
    throw new KfdError('E_PROTOCOL', `migration: "${message.type}" is not understood yet`);
  }
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
  const facts = await targetFacts(question, { root, run, release: version, host, failures });
  return { type: 'facts', facts };
}
