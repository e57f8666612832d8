import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { ownSocket } from '../../shim/bootstrap/own-socket.js';
import { bytesField, fieldsOf, numberField } from '../../src/protobuf.js';
import { host, isAlive, knownToRunc, proxyPid, run, runcFolder, until } from './shim-host.js';

test('delete: what a task that is gone leaves is nothing, which needs no stock shim to say', async (t) => {
  const one = await host(t);
  await knownToRunc(one);
  await rm(runcFolder(one), { recursive: true });
  await writeFile(join(one.bundle, 'init.pid'), '4194304');
  const before = Math.floor(Date.now() / 1000);
  const { status, stdout, stderr } = await run(one, 'delete');
  const after = Math.floor(Date.now() / 1000);
  assert.deepEqual([status, stderr], [0, '']);
  const answers = Array.from({ length: after - before + 1 }, (_, i) =>
    Buffer.concat([
      numberField(1, 4194304),
      numberField(2, 137),
      bytesField(3, numberField(1, before + i)),
    ]),
  );
  assert.ok(
    answers.some((answer) => answer.equals(stdout)),
    stdout.toString('hex'),
  );
  assert.equal(existsSync(join(one.folder, 'args')), false, 'the stock shim was asked');

  for (const [text, number] of [
    ['', 0n],
    ['1', 1n],
    ['127', 127n],
    ['128', 128n],
    ['one', 0n],
  ] as const) {
    await writeFile(join(one.bundle, 'init.pid'), text);
    const [first] = [...fieldsOf((await run(one, 'delete')).stdout)];
    assert.equal(first?.value, number, text);
  }
  await rm(join(one.bundle, 'init.pid'));
  await rm(join(one.bundle, 'options.json'));
  const env = { pid: '7', options: `{"root":"${one.folder}"}` }; // variables are not files
  await mkdir(join(one.folder, 'default/one'), { recursive: true });
  const [none] = [...fieldsOf((await run(one, 'delete', { env })).stdout)];
  assert.equal(none?.value, 0n);
  assert.ok(existsSync(join(one.folder, 'default/one')));
});

test('delete: stops the stock shim when the proxy was killed, and then only', async (t) => {
  const one = await host(t);
  await knownToRunc(one);
  await run(one, 'start');
  const pid = proxyPid(one);
  await run(one, 'delete');
  assert.ok(isAlive(pid) && one.process.signalCode === null, 'one container of a group ends');

  process.kill(pid, 'SIGKILL');
  await until('the end of the proxy', () => !isAlive(pid));
  const { stdout } = await run(one, 'delete');
  assert.equal(stdout.toString(), 'stock did it');
  await until('the end of the stock shim', () => one.process.signalCode === 'SIGKILL');
  assert.deepEqual(readdirSync(dirname(one.stock.path)), [], 'sockets left');
});

test('delete: a process that has got the pid of the stock shim meanwhile lives on', async (t) => {
  const one = await host(t);
  await run(one, 'start');
  const pid = proxyPid(one);
  process.kill(pid, 'SIGKILL');
  await until('the end of the proxy', () => !isAlive(pid));
  const file = `${ownSocket(one.stock.path)}.processes`;
  const words = readFileSync(file, 'utf8').trim().split(' ');
  await writeFile(file, `${[...words.slice(0, 3), Number(words[3]) - 1, words[4]].join(' ')}\n`);
  await run(one, 'delete');
  assert.equal(one.process.signalCode, null);
});

test('delete: damaged or missing records are none', async (t) => {
  const one = await host(t);
  await knownToRunc(one);
  for (const text of ['', '\n', '/not/there\n', '* $(touch x)\n']) {
    await writeFile(join(one.bundle, 'kfd-shim'), text);
    const { status, stdout, stderr } = await run(one, 'delete');
    assert.deepEqual([status, stdout.toString(), stderr], [0, 'stock did it', ''], text);
  }
});

test('delete: the root file system in runc’s folder is let go before runc removes that', async (t) => {
  const one = await host(t);
  await knownToRunc(one);
  const mounted = join(runcFolder(one), 'criu-root');
  const said = join(one.folder, 'said');
  const programs = join(one.folder, 'programs');
  await mkdir(programs);
  await writeFile(join(programs, 'umount'), `#!/bin/sh\necho "$@" >>${said}\n`, { mode: 0o700 });
  const env = { PATH: `${programs}:${process.env['PATH']}` };
  await run(one, 'delete', { env });
  assert.ok(!existsSync(said), 'nothing is mounted there');
  await mkdir(mounted);
  const { stdout } = await run(one, 'delete', { env });
  assert.equal(stdout.toString(), 'stock did it');
  assert.equal(readFileSync(said, 'utf8'), `-l ${mounted}\n`);
});

test('delete: runc’s folder of a restore that was cut off goes, and no other', async (t) => {
  const one = await host(t);
  await knownToRunc(one);
  const own = runcFolder(one);
  const other = join(dirname(own), 'two');
  await mkdir(other);
  await run(one, 'delete');
  assert.ok(existsSync(own), 'what runc knows is deleted by runc');

  await rm(join(own, 'state.json'));
  await mkdir(join(own, 'criu-root'));
  await writeFile(join(own, 'criu-root/file'), 'of the container');
  const { stdout } = await run(one, 'delete');
  assert.equal(stdout.toString(), 'stock did it');
  assert.ok(existsSync(join(own, 'criu-root/file')), 'contents are never removed');

  await rm(join(own, 'criu-root/file'));
  const options = join(one.bundle, 'options.json');
  const known = readFileSync(options, 'utf8');
  for (const text of ['', '{', '{"root":"/not/there"}']) {
    await writeFile(options, text);
    assert.equal((await run(one, 'delete')).stderr, '');
    assert.ok(existsSync(own), text);
  }
  await writeFile(options, known);
  assert.equal((await run(one, 'delete')).stderr, '');
  assert.deepEqual(readdirSync(dirname(own)), ['two']);
});

test('delete: the image that a restore had of its own goes, and nothing else', async (t) => {
  const one = await host(t);
  await knownToRunc(one);
  const copies = ['.image.kfd-one', '.moved-kfd-one'].map((name) => join(one.folder, name));
  const others = ['image', '.image'].map((name) => join(one.folder, name));
  for (const path of [...copies, ...others]) {
    await mkdir(path);
    await writeFile(join(one.bundle, 'kfd-shim-image'), `${path}\n`);
    const { stderr } = await run(one, 'delete');
    assert.deepEqual([existsSync(path), stderr], [others.includes(path), ''], path);
  }
});
