/** Questions to whoever sits at the terminal. */

import type { ReadStream } from 'node:tty';

/** Undefined when `input` is no terminal. Anything but yes is no, and so is the end of the input or a signal. */
export function questionsOn(
  input: Pick<ReadStream, 'isTTY' | 'once' | 'off' | 'pause' | 'resume'>,
  print: (text: string) => void,
  signal: AbortSignal,
): ((question: string) => Promise<boolean>) | undefined {
  if (input.isTTY !== true) return undefined;
  return (question) =>
    new Promise((resolve) => {
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
