/** The long-lived process of the shim: what does not end it, and what it leaves when it cannot serve. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { ownSocket } from '../../shim/bootstrap/own-socket.js';
import { serve } from '../../shim/bootstrap/serve.js';
import { bytesField, numberField } from '../../src/protobuf.js';
import { connectTo } from '../../src/ttrpc/client.js';
import { host, isAlive, proxyPid, run, until } from './shim-host.js';

/** Other sockets of this folder. One whose file was removed is here as long as somebody listens. */
function socketsBeside(path: string): string[] {
  const lines = readFileSync('/proc/net/unix', 'utf8').split('\n');
  return lines.filter((line) => line.includes(`${dirname(path)}/`) && !line.endsWith(path));
}

test('an error that nobody caught is written to the log, and containers live on', async (t) => {
  const one = await host(t);
  const log = join(one.folder, 'log');
  const faults = join(one.folder, 'faults.mjs');
  await writeFile(
    faults,
    `process.on('SIGUSR2', () => { throw new Error('of a callback'); });
process.on('SIGCONT', () => { void Promise.reject(new Error('of a promise')); });
process.on('SIGWINCH', () => { throw 'a word'; });
process.on('SIGIO', () => { throw Object.assign(new Error('bare'), { stack: undefined }); });
`,
  );
  await writeFile(
    join(one.folder, 'bin/node'),
    `#!/bin/sh\nexec '${process.execPath}' --import '${faults}' "$@" 2>'${log}'\n`,
    { mode: 0o755 },
  );
  const env = { PATH: `${one.folder}/bin:${process.env['PATH']}` };
  assert.equal((await run(one, 'start', { env })).status, 0);
  const pid = proxyPid(one);
  const client = await connectTo(ownSocket(one.stock.path), () => undefined);
  const payload = Buffer.from('x');
  const text = () => readFileSync(log, 'utf8');
  for (const [signal, says] of [
    ['SIGUSR2', ': Error: of a callback\n    at '],
    ['SIGCONT', ': Error: of a promise\n    at '],
    ['SIGWINCH', ': a word\n'],
    ['SIGIO', ': bare\n'],
  ] as const) {
    process.kill(pid, signal);
    await until(says, () => text().includes(`Z shim ${pid}${says}`));
    const request = { service: 'containerd.task.v3.Task', method: 'Echo', payload };
    assert.deepEqual((await client.call(request, 5_000)).payload, payload, signal);
  }
  assert.match(text(), /^\d{4}-\d\d-\d\dT[\d:.]+Z shim/);
  client.close();
});

test('a stock shim that does not say its process is not served, and nothing is left', async (t) => {
  const refused = () => ({ code: 5, message: 'no such task' });
  const one = await host(t, 'as it is', refused);
  const { status, stdout, stderr } = await run(one, 'start');
  const says = 'containerd-shim-kfd-v2: stock shim: no such task\n';
  assert.deepEqual([status, stdout.length, stderr], [1, 0, says]);
  await until('the end of the proxy', () => one.stock.connections === 0);
  assert.deepEqual(readdirSync(dirname(one.stock.path)), ['child']);

  const before = process.cwd();
  t.after(() => process.chdir(before));
  const cases: readonly [expected: object, connect: Parameters<typeof host>[2]][] = [
    [{ code: 'E_PROTOCOL', message: 'stock shim: no such task' }, refused],
    [{ message: 'stock shim: its answer to Connect has no pid' }, () => ({ code: 12 })],
    [{ message: /has no pid/ }, () => ({ payload: numberField(2, 7) })],
    [{ message: /has no pid/ }, () => ({ payload: bytesField(1, '7') })],
    // A pid that no process can have.
    [{ code: 'ENOENT' }, () => ({ payload: numberField(1, 2 ** 31 - 1) })],
  ];
  for (const [expected, connect] of cases) {
    const { bundle, stock } = await host(t, 'as it is', connect);
    process.chdir(bundle);
    const answer = Buffer.from(`unix://${stock.path}`);
    await assert.rejects(
      serve(answer, 'one', () => undefined),
      expected,
    );
    assert.deepEqual(readdirSync(dirname(stock.path)), ['child']);
    assert.deepEqual(socketsBeside(stock.path), []);
    await until('the end of the connection', () => stock.connections === 0);
  }
});

test('a proxy ends with its stock shim, with the last of its files, when callers are still connected', async (t) => {
  const one = await host(t);
  await run(one, 'start');
  const pid = proxyPid(one);
  let ended = false;
  const client = await connectTo(ownSocket(one.stock.path), () => {
    ended = true;
  });
  await until('the connection of the caller', () => one.stock.connections === 2);
  one.stock.close();
  await until('the end of the proxy', () => !isAlive(pid));
  assert.deepEqual(readdirSync(dirname(one.stock.path)), []);
  await until('the end of the connection', () => ended);
  client.close();
});
