/**
 * What becomes of containers through containerd, by everything that can be asked of them: two runtimes' are to be
 * equal.
 */

import { attempt, run, until } from './command.js';
import { image } from './container.js';
import { ctr, eventsOf, Task } from './containerd.js';

/** One container's life, told without what differs from one to the next: its id, pids, times. */
export async function life(runtime: string, id: string): Promise<unknown> {
  const [detached, attached] = await Promise.all([
    detachedLife(runtime, id),
    attachedLife(runtime, `${id}-attached`),
  ]);
  return { detached, attached };
}

async function detachedLife(runtime: string, id: string): Promise<unknown[]> {
  const forever = 'trap "exit 7" TERM; while :; do sleep 1; done';
  const task = await Task.start(runtime, id, 'sh', '-c', forever);
  const seen: unknown[] = [];
  const tell = async (...args: string[]) => {
    const { status, stdout, stderr } = await ctr('task', ...args);
    const text = [stdout, stderr.replace(/^time=\S+ /gm, '')];
    seen.push([args[0], status, ...text.map((one) => one.replaceAll(id, 'ID'))]);
  };
  const [stdin, metrics] = await Promise.all([
    // ctr reads its own standard input, and so does the process.
    attempt('sh', '-c', `echo said | ctr task exec --exec-id two ${id} cat`),
    run('ctr', 'task', 'metrics', id),
    tell('exec', '--exec-id', 'one', id, 'sh', '-c', 'echo out; echo err >&2; exit 3'),
  ]);
  seen.push(['stdin', stdin.status, stdin.stdout]);
  // Values are what they were at that moment.
  seen.push(['metrics', ...(metrics.match(/^\S+/gm) ?? []).map((name) => name.replace(id, 'ID'))]);
  await tell('exec', '--exec-id', 'three', id, 'no-such-program');
  await tell('pause', id);
  seen.push(await task.status());
  await tell('resume', id);
  await tell('kill', '-s', 'TERM', id);
  await until(`the end of ${id}`, async () => (await task.status()) === 'STOPPED', 30);
  await tell('rm', id);
  await tell('kill', id);
  await run('ctr', 'container', 'rm', id);
  return [...seen, await events(id)];
}

/** With a terminal: its size reaches the container, what is typed there is echoed, the exit status is ctr's. */
async function attachedLife(runtime: string, id: string): Promise<unknown[]> {
  const inside =
    'n=0; until stty size | grep -q "33 77" || [ $n = 100 ]; do n=$((n+1)); sleep 0.1; done;' +
    ' tty; stty size; read line; echo "got $line"; exit 5';
  const terminal = `stty rows 33 cols 77; ctr run -t --rm --runtime ${runtime} ${image} ${id} sh -c '${inside}'`;
  const { status, stdout, stderr } = await attempt(
    'sh',
    '-c',
    'echo said | script -qec "$0" /dev/null',
    terminal,
  );
  // What comes first depends on when it was typed; stty may be too early for its standard input to be one.
  const lines = stdout.split(/[\r\n]+/).filter((line) => /^(\/dev|\d+ \d+$|got )/.test(line));
  return [status, lines, stderr, await events(id)];
}

async function events(id: string): Promise<string[]> {
  const all = await until(`the last event of ${id}`, () => {
    const told = eventsOf(id);
    return told.at(-1)?.topic === '/tasks/delete' && told;
  });
  const told = all.map(
    ({ topic, body }) =>
      `${topic} ${body
        .replaceAll(id, 'ID')
        .replace(/"exited_at":\{[^}]*\}/g, '"exited_at"')
        .replace(/"pid":\d+/g, '"pid"')
        .replace(/\/\d+\//g, '/N/')}`,
  );
  return told.sort();
}
