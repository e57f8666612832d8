import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { chmod, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { parseAnswer } from '../../shim/bootstrap/answer.js';
import { listenAt, ownSocket } from '../../shim/bootstrap/own-socket.js';
import { proxyFor } from '../../shim/proxy/server.js';
import { connectTo } from '../../shim/transport/client.js';
import { bytesField, numberField } from '../../shim/transport/fields.js';
import { repository, temporaryFolder } from './paths.js';
import { type TestServer, testServer } from './ttrpc-server.js';

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

/** A bundle, and a stock shim that starts nothing: it answers with the address of a server of this process. */
interface Host {
  readonly folder: string;
  readonly bundle: string;
  readonly child: TestServer;
  /** Stands for the stock shim's process. */
  readonly process: ChildProcess;
  readonly shim: string;
}

async function host(t: TestContext, answer: Buffer | 'as it is' = 'as it is'): Promise<Host> {
  const folder = await temporaryFolder(t);
  const process = spawn('sleep', ['600'], { stdio: 'ignore' });
  t.after(() => process.kill('SIGKILL'));
  const child = await testServer(t, ({ service, method, payload }) => {
    if (service !== 'containerd.task.v3.Task') return { code: 12, message: 'unimplemented' };
    if (method === 'Connect') return { payload: numberField(1, process.pid ?? 0) };
    return { payload };
  });
  const bundle = join(folder, 'bundle');
  await mkdir(bundle);
  await mkdir(join(folder, 'bin'));
  await writeFile(join(folder, 'answer'), answer === 'as it is' ? `unix://${child.path}` : answer);
  await writeFile(join(bundle, 'address'), `unix://${child.path}`);
  const stock = join(folder, 'bin/containerd-shim-runc-v2');
  await writeFile(
    stock,
    `#!/bin/sh
cat >'${folder}/stdin'
for word in "$@"; do printf '%s\\n' "$word"; done >'${folder}/args'
case $* in
  *start) cat '${folder}/answer' ;;
  *broken) echo 'stock: broken' >&2; exit 3 ;;
  *) printf 'stock did it' ;;
esac
`,
  );
  await chmod(stock, 0o755);
  const shim = join(folder, 'containerd-shim-kfd-v2');
  await symlink(join(repository, 'shim/containerd-shim-kfd-v2'), shim);
  return { folder, bundle, child, process, shim };
}

interface Run {
  readonly status: number | null;
  readonly stdout: Buffer;
  readonly stderr: string;
}

/** Runs the shim as containerd does, until nobody holds its output. */
async function run(
  { folder, bundle, shim }: Host,
  action: string,
  options: { input?: Buffer; env?: Record<string, string>; publish?: string } = {},
): Promise<Run> {
  const publish = options.publish ?? join(folder, 'bin/containerd');
  const flags = ['-namespace', 'default', '-address', '/run/c.sock', '-publish-binary', publish];
  const child = spawn(shim, [...flags, '-id', 'one', '-debug', action], {
    cwd: bundle,
    env: { ...process.env, ...options.env },
  });
  child.stdin.on('error', () => undefined);
  child.stdin.end(options.input ?? Buffer.alloc(0));
  const stdout: Buffer[] = [];
  let stderr = '';
  child.stdout.on('data', (chunk: Buffer) => stdout.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  const status = await new Promise<number | null>((resolve) => child.on('close', resolve));
  return { status, stdout: Buffer.concat(stdout), stderr };
}

async function until(what: string, holds: () => boolean): Promise<void> {
  for (let i = 0; i < 400; i += 1) {
    if (holds()) return;
    await delay(10);
  }
  assert.fail(`not within 4 s: ${what}`);
}

/** The proxy's pid, from the file that delete reads. */
function proxyPid({ child }: Host): number {
  return Number(readFileSync(`${ownSocket(child.path)}.processes`, 'utf8').split(' ')[0]);
}

/** One that has ended may stay a zombie for a while: it is not our child. */
function isAlive(pid: number): boolean {
  try {
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return false;
  }
}

test('start: a proxy serves, and lives as long as the stock shim', async (t) => {
  const one = await host(t);
  const options = Buffer.from('\x0a\x00\xff\n\n', 'latin1');
  const started = await run(one, 'start', { input: options });
  assert.equal(started.stderr, '');
  assert.equal(started.status, 0);
  const own = ownSocket(one.child.path);
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

  one.child.close();
  await until('the end of the proxy', () => !isAlive(pid));
  const left = readdirSync(join(own, '..'));
  assert.deepEqual(left, [], 'beside the socket');
});

test('start: every form of answer comes back in its form', async (t) => {
  for (const { name, of } of forms) {
    const one = await host(t);
    await writeFile(join(one.folder, 'answer'), of(`unix://${one.child.path}`));
    const { status, stdout, stderr } = await run(one, 'start');
    assert.equal(stderr, '', name);
    assert.equal(status, 0, name);
    assert.deepEqual(stdout, of(`unix://${ownSocket(one.child.path)}`), name);
    one.child.close();
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
  assert.equal(stdout.toString(), `unix://${ownSocket(one.child.path)}`);
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
    assert.deepEqual(readdirSync(dirname(one.child.path)), ['child'], name);
    await until('connections of the proxy', () => one.child.connections === 0);
  }
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

test('delete: stops the stock shim when the proxy was killed, and then only', async (t) => {
  const one = await host(t);
  await run(one, 'start');
  const pid = proxyPid(one);
  await run(one, 'delete');
  assert.ok(isAlive(pid) && one.process.signalCode === null, 'one container of a group ends');

  process.kill(pid, 'SIGKILL');
  await until('the end of the proxy', () => !isAlive(pid));
  const { stdout } = await run(one, 'delete');
  assert.equal(stdout.toString(), 'stock did it');
  await until('the end of the stock shim', () => one.process.signalCode === 'SIGKILL');
  assert.deepEqual(readdirSync(dirname(one.child.path)), [], 'sockets left');
});

test('delete: a process that has got the pid of the stock shim meanwhile lives on', async (t) => {
  const one = await host(t);
  await run(one, 'start');
  const pid = proxyPid(one);
  process.kill(pid, 'SIGKILL');
  await until('the end of the proxy', () => !isAlive(pid));
  const file = `${ownSocket(one.child.path)}.processes`;
  const words = readFileSync(file, 'utf8').trim().split(' ');
  await writeFile(file, `${[...words.slice(0, 3), Number(words[3]) - 1, words[4]].join(' ')}\n`);
  await run(one, 'delete');
  assert.equal(one.process.signalCode, null);
});

test('delete: damaged or missing records are none', async (t) => {
  const one = await host(t);
  for (const text of ['', '\n', '/not/there\n', '* $(touch x)\n']) {
    await writeFile(join(one.bundle, 'kfd-shim'), text);
    const { status, stdout, stderr } = await run(one, 'delete');
    assert.deepEqual([status, stdout.toString(), stderr], [0, 'stock did it', ''], text);
  }
});

test('delete: runc’s folder of a restore that was cut off goes, and no other', async (t) => {
  const one = await host(t);
  const root = join(one.folder, 'runc');
  const options = join(one.bundle, 'options.json');
  await writeFile(options, `{"binary_name":"runc","root":"${root}","shim_cgroup":"/x"}`);
  const [own, other] = ['one', 'two'].map((id) => join(root, 'default', id)) as [string, string];
  for (const folder of [own, other]) await mkdir(folder, { recursive: true });
  await writeFile(join(own, 'state.json'), '{}');
  await run(one, 'delete');
  assert.ok(existsSync(own), 'what runc knows is deleted by runc');

  await rm(join(own, 'state.json'));
  await mkdir(join(own, 'criu-root'));
  for (const text of ['', '{', `{"root":"${root}/elsewhere"}`]) {
    await writeFile(options, text);
    assert.equal((await run(one, 'delete')).stderr, '');
    assert.ok(existsSync(own), text);
  }
  await writeFile(options, `{"root":"${root}"}`);
  const { stdout, stderr } = await run(one, 'delete');
  assert.deepEqual([stdout.toString(), stderr], ['stock did it', '']);
  assert.deepEqual(readdirSync(dirname(own)), ['two']);

  await mkdir(join(own, 'criu-root'), { recursive: true });
  await writeFile(join(own, 'criu-root/file'), 'of the container');
  assert.equal((await run(one, 'delete')).stderr, '');
  assert.ok(existsSync(join(own, 'criu-root/file')), 'contents are never removed');
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
