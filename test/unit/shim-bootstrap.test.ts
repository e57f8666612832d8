import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { chmod, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { parseAnswer } from '../../shim/bootstrap/answer.js';
import { listenAt, ownSocket } from '../../shim/bootstrap/own-socket.js';
import { proxyFor } from '../../shim/proxy/server.js';
import { startTime } from '../../src/os/ancestors.js';
import { bytesField, numberField } from '../../src/protobuf.js';
import { connectTo } from '../../src/ttrpc/client.js';
import { temporaryFolder } from './paths.js';
import { host, isAlive, knownToRunc, proxyPid, run, until } from './shim-host.js';

const address = 'unix:///run/containerd/s/0123';

/** BootstrapResult of containerd 2.3 with all its fields. */
function result(at: string): Buffer {
  const metadata = Buffer.concat([bytesField(1, 'key'), bytesField(2, '\n')]);
  return Buffer.concat([
    numberField(1, 3),
    bytesField(2, at),
    bytesField(3, 'ttrpc'),
    numberField(4, 1n << 63n),
    bytesField(5, metadata),
  ]);
}

const forms = [
  { name: 'plain', of: (at: string) => Buffer.from(at) },
  { name: 'plain with a line end', of: (at: string) => Buffer.from(`${at}\n`) },
  {
    name: 'JSON',
    of: (at: string) => Buffer.from(`{"version":3, "address":"${at}","protocol":"ttrpc"}\n`),
  },
  { name: 'protobuf', of: result },
];

test('every form of answer is kept but for the socket', () => {
  for (const { name, of } of forms) {
    const answer = parseAnswer(of(address));
    assert.equal(answer.socket, '/run/containerd/s/0123', name);
    assert.deepEqual(
      answer.withSocket('/a/longer/path'.repeat(5)),
      of(`unix://${'/a/longer/path'.repeat(5)}`),
      name,
    );
  }
});

test('answers that cannot be extended are refused', () => {
  for (const text of [
    '',
    'unix://relative',
    '{"version":2,"address":"unix:///run/s","protocol":"grpc"}',
    '{"version":2}',
    '{',
    'containerd-shim: something is wrong',
    '\x08\x03\x12\x05unix:',
  ]) {
    assert.throws(() => parseAnswer(Buffer.from(text)), Error, text);
  }
});

test('our socket is beside the stock shim’s, no longer than that one, and no other’s', () => {
  const digest = '0123456789abcdef'.repeat(4);
  const own = ownSocket(`/run/containerd/s/${digest}`);
  assert.equal(own, `/run/containerd/s/kfd-${digest.slice(0, 60)}`);
  assert.notEqual(ownSocket(`/run/containerd/s/f${digest.slice(1)}`), own);
  assert.equal(ownSocket('/s/short'), '/s/kfd-short');
});

test('start: a proxy serves, and lives as long as the stock shim', async (t) => {
  const one = await host(t);
  const options = Buffer.from('\x0a\x00\xff\n\n', 'latin1');
  const started = await run(one, 'start', { input: options });
  assert.equal(started.stderr, '');
  assert.equal(started.status, 0);
  const own = ownSocket(one.stock.path);
  assert.equal(started.stdout.toString(), `unix://${own}`);
  assert.deepEqual(readFileSync(join(one.folder, 'stdin')), options);
  assert.equal(readFileSync(join(one.bundle, 'address'), 'utf8'), `unix://${own}`);

  const client = await connectTo(own, () => undefined);
  const request = { service: 'containerd.task.v3.Task', method: 'Echo', payload: options };
  assert.deepEqual((await client.call(request, 5_000)).payload, options);

  const pid = proxyPid(one);
  assert.equal(
    readFileSync(`/proc/${pid}/oom_score_adj`, 'utf8'),
    readFileSync('/proc/self/oom_score_adj', 'utf8'),
  );
  const descriptors = readdirSync(`/proc/${pid}/fd`).map((fd) =>
    readlinkSync(`/proc/${pid}/fd/${fd}`),
  );
  assert.ok(!descriptors.some((name) => name.includes(one.folder)), descriptors.join(' '));
  assert.deepEqual(
    [readlinkSync(`/proc/${pid}/cwd`), ...descriptors.slice(0, 2)],
    ['/', '/dev/null', '/dev/null'],
  );
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.kill(pid, signal);
  assert.deepEqual((await client.call(request, 5_000)).payload, options);

  const again = await run(one, 'start');
  assert.deepEqual(again, started, 'a second container of the same group');
  assert.equal(proxyPid(one), pid);

  one.stock.close();
  await until('the end of the proxy', () => !isAlive(pid));
  const left = readdirSync(join(own, '..'));
  assert.deepEqual(left, [], 'beside the socket');
});

test('start: every form of answer comes back in its form', async (t) => {
  for (const { name, of } of forms) {
    const one = await host(t);
    await writeFile(join(one.folder, 'answer'), of(`unix://${one.stock.path}`));
    const { status, stdout, stderr } = await run(one, 'start');
    assert.equal(stderr, '', name);
    assert.equal(status, 0, name);
    assert.deepEqual(stdout, of(`unix://${ownSocket(one.stock.path)}`), name);
    one.stock.close();
  }
});

test("start: Node.js's environment adds no word to the answer", async (t) => {
  const one = await host(t);
  const { status, stdout, stderr } = await run(one, 'start', {
    env: {
      NODE_OPTIONS: '--require /not/there --no-such-flag',
      NODE_EXTRA_CA_CERTS: '/not/there',
      NODE_DEBUG: 'net,fs',
      NODE_PENDING_DEPRECATION: '1',
      NODE_NO_WARNINGS: '0',
    },
  });
  assert.equal(stderr, '');
  assert.equal(stdout.toString(), `unix://${ownSocket(one.stock.path)}`);
  assert.equal(status, 0);
});

test('start: what goes wrong is said, and the stock shim that was started is stopped', async (t) => {
  const wrong = [
    {
      answer: Buffer.from('{"version":2,"address":"unix:///x","protocol":"grpc"}'),
      says: /only ttrpc/,
    },
    { answer: Buffer.from('unix:///not/there'), says: /ENOENT/ },
    { answer: Buffer.alloc(0), says: /answered nothing/ },
  ];
  for (const { answer, says } of wrong) {
    const one = await host(t, answer);
    // Named and called as the stock shim's long-lived process is.
    const left = spawn(
      '/bin/sh',
      [
        '-c',
        'sleep 600; true',
        `${one.folder}/bin/containerd-shim-runc-v2`,
        '-namespace',
        'default',
        '-id',
        'one',
        '-address',
        '/run/c.sock',
      ],
      { stdio: 'ignore', detached: true },
    );
    t.after(() => left.kill('SIGKILL'));
    const { status, stdout, stderr } = await run(one, 'start');
    assert.equal(stdout.length, 0);
    assert.match(stderr, says);
    assert.equal(status, 1);
    await until('the end of the stock shim', () => left.signalCode === 'SIGKILL');
    if (left.pid !== undefined) spawn('pkill', ['-KILL', '-g', String(left.pid)]);
  }
});

test('start: a bundle that cannot be written leaves no socket', async (t) => {
  for (const name of ['kfd-shim', 'address']) {
    const one = await host(t);
    await rm(join(one.bundle, name), { force: true });
    await mkdir(join(one.bundle, name));
    const { status, stdout, stderr } = await run(one, 'start');
    assert.match(stderr, /EISDIR/, name);
    assert.deepEqual([status, stdout.length], [1, 0], name);
    assert.deepEqual(readdirSync(dirname(one.stock.path)), ['child'], name);
    await until('connections of the proxy', () => one.stock.connections === 0);
  }
});

test('start: a proxy that is killed before its answer leaves nothing of the stock shim', async (t) => {
  const one = await host(t);
  const [own, child] = [join(one.folder, 'own'), join(one.folder, 'child')];
  const stock = one.process.pid ?? 0;
  const node = join(one.folder, 'bin/node');
  await writeFile(
    node,
    `#!/bin/sh
touch '${own}' '${child}'
echo '${own}' >kfd-shim
echo "$$ 1 ${stock} ${startTime(stock)} ${child}" >'${own}.processes'
kill -KILL $$
`,
  );
  await chmod(node, 0o755);
  const env = { PATH: `${one.folder}/bin:${process.env['PATH']}` };
  const { status, stderr } = await run(one, 'start', { env });
  assert.match(stderr, /ended early/);
  assert.equal(status, 1);
  await until('the end of the stock shim', () => one.process.signalCode === 'SIGKILL');
  const files = [own, `${own}.processes`, child].filter((path) => existsSync(path));
  assert.deepEqual(files, []);
});

test('start: without Node.js it fails with a sentence', async (t) => {
  const one = await host(t);
  const bin = join(one.folder, 'few');
  await mkdir(bin);
  for (const tool of ['sh', 'cat', 'tr', 'readlink', 'mkdir', 'rm'])
    await symlink(`/bin/${tool}`, join(bin, tool));
  const { status, stderr } = await run(one, 'start', { env: { PATH: bin } });
  assert.match(stderr, /node did not start/);
  assert.equal(status, 1);
});

test('everything but start is the stock shim, which is the one beside the daemon', async (t) => {
  const one = await host(t);
  await knownToRunc(one);
  const deleted = await run(one, 'delete', { input: Buffer.from('options') });
  assert.deepEqual(deleted, { status: 0, stdout: Buffer.from('stock did it'), stderr: '' });
  assert.match(
    readFileSync(join(one.folder, 'args'), 'utf8'),
    /^-namespace\ndefault\n.*\n-debug\ndelete\n$/s,
  );
  const elsewhere = await run(one, '-info', {
    publish: '/not/there/containerd',
    env: { PATH: `${one.folder}/bin:${process.env['PATH']}` },
  });
  assert.equal(elsewhere.stdout.toString(), 'stock did it');
  const broken = await run(one, 'broken');
  assert.deepEqual(broken, { status: 3, stdout: Buffer.alloc(0), stderr: 'stock: broken\n' });
});

test('of two proxies for one stock shim one gets the socket; one that was killed leaves it to the next', async (t) => {
  const folder = await temporaryFolder(t);
  const path = join(folder, 's');
  const servers = [proxyFor('/none', () => undefined), proxyFor('/none', () => undefined)] as const;
  t.after(() => servers.forEach((server) => void server.close()));
  await writeFile(path, ''); // of a killed one: nobody listens
  assert.equal(await listenAt(servers[0], path), true);
  assert.equal(await listenAt(servers[1], path), false);
  assert.deepEqual(readdirSync(folder), ['s']);
  await rm(path);
});
