/** What an edit changes, in the form of a unified diff. */

const context = 3;

/**
 * A single hunk: the edits shown here are one piece each. Empty when nothing changes; one line for
 * a binary file, as diff(1) has it.
 */
export function diff(path: string, before: string | undefined, after: string | undefined): string {
  if (before === after) return '';
  const oldName = before === undefined ? '/dev/null' : path;
  const newName = after === undefined ? '/dev/null' : path;
  if (`${before}${after}`.includes('\0')) return `Binary files ${oldName} and ${newName} differ\n`;
  const old = lines(before);
  const now = lines(after);
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head += 1;
  let tail = 0;
  while (
    tail < old.length - head &&
    tail < now.length - head &&
    old[old.length - 1 - tail] === now[now.length - 1 - tail]
  ) {
    tail += 1;
  }
  const from = Math.max(0, head - context);
  const shown = Math.min(tail, context);
  const oldEnd = old.length - tail;
  const nowEnd = now.length - tail;
  return [
    `--- ${oldName}`,
    `+++ ${newName}`,
    `@@ -${range(from, oldEnd + shown)} +${range(from, nowEnd + shown)} @@`,
    ...old.slice(from, head).map((line) => ` ${line}`),
    ...old.slice(head, oldEnd).map((line) => `-${line}`),
    ...now.slice(head, nowEnd).map((line) => `+${line}`),
    ...old.slice(oldEnd, oldEnd + shown).map((line) => ` ${line}`),
    '',
  ].join('\n');
}

function range(from: number, to: number): string {
  return `${to === from ? from : from + 1},${to - from}`;
}

function lines(text: string | undefined): string[] {
  if (text === undefined || text === '') return [];
  const split = text.split('\n');
  const last = split.pop();
  return last === '' || last === undefined
    ? split
    : [...split, `${last}\n\\ No newline at end of file`];
}
