/** Questions to whoever sits at the terminal. */

import type { ReadStream } from 'node:tty';

/**
 * Undefined unless the input is a terminal. Anything but yes is no, and so is the end of the input or a signal.
 * `open` is called with the first question: a verb that asks nothing does not open its input.
 */
export function questionsOn(
  isTerminal: boolean,
  open: () => Pick<ReadStream, 'once' | 'off' | 'pause' | 'resume'>,
  print: (text: string) => void,
  signal: AbortSignal,
): ((question: string) => Promise<boolean>) | undefined {
  if (!isTerminal) return undefined;
  return (question) =>
    new Promise((resolve) => {
      const input = open();
      print(`${question} [y/N] `);
      const answer = (yes: boolean) => {
        input.off('data', onData).off('end', onEnd).pause();
        signal.removeEventListener('abort', onEnd);
        resolve(yes);
      };
      // A terminal gives whole lines.
      const onData = (line: Buffer) => answer(/^\s*y(es)?\s*$/i.test(line.toString('utf8')));
      const onEnd = () => answer(false);
      signal.addEventListener('abort', onEnd, { once: true });
      input.once('data', onData).once('end', onEnd).resume();
    });
}
