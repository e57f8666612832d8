/** Which folders of contents a session takes from a command. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, mkdir, realpath, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { commandFolderName } from '../../src/criu/command-folder.js';
import type { ContentsRequest } from '../../src/criu/contents-request.js';
import { processName } from '../../src/os/ancestors.js';
import { openOwnFolder } from '../../src/os/own-folder.js';
import { requestedForDump, requestedForRestore } from '../../src/session/contents/requests.js';
import { temporaryFolder } from './paths.js';

const root = 'ab'.repeat(16);
const other = 'cd'.repeat(16);

async function requests(t: TestContext) {
  const top = await realpath(await temporaryFolder(t));
  const run = join(top, 'run');
  const folder = async (name: string) => {
    await mkdir(join(top, name), { mode: 0o700 });
    return join(top, name);
  };
  const put = async (process: string, request: ContentsRequest | string, mode = 0o700) => {
    const at = join(run, commandFolderName('contents', process));
    await mkdir(at, { recursive: true });
    const text = typeof request === 'string' ? request : JSON.stringify(request);
    await writeFile(join(at, 'contents.json'), text);
    await chmod(at, mode);
  };
  return { top, run, folder, put };
}

/** A process that is no ancestor of this one. */
async function stranger(t: TestContext): Promise<string> {
  const child = spawn('sleep', ['60']);
  t.after(() => child.kill('SIGKILL'));
  await once(child, 'spawn');
  return processName(child.pid as number);
}

test('a dump takes the folder of its own command alone', async (t) => {
  const { top, run, folder, put } = await requests(t);
  assert.equal(await requestedForDump(process.pid, top, run), undefined);
  const path = await folder('a');
  await put(await stranger(t), { operation: 'dump', folder: path });
  await put(`${process.pid}-1`, { operation: 'dump', folder: path });
  assert.equal(await requestedForDump(process.pid, top, run), undefined);
  await put(processName(process.pid), { operation: 'restore', roots: [root], folders: [path] });
  assert.equal(await requestedForDump(process.pid, top, run), undefined, 'a request for a restore');
  await put(processName(process.ppid), { operation: 'dump', folder: path });
  const found = await requestedForDump(process.pid, top, run);
  const asker = join(run, commandFolderName('contents', processName(process.ppid)));
  assert.deepEqual([found?.folder.name, found?.stream, found?.asker], [path, undefined, asker]);
  await writeFile(join(found?.folder.path ?? '', 'through the open folder'), '');
  await found?.folder.close();
  await put(processName(process.ppid), { operation: 'dump', folder: path, stream: '/a/fifo' });
  const sent = await requestedForDump(process.pid, top, run);
  assert.equal(sent?.stream, '/a/fifo');
  await sent.folder.close();
  await writeFile(join(path, 'amdgpu-pages-0-0000.img'), 'of another checkpoint');
  await assert.rejects(requestedForDump(process.pid, top, run), {
    code: 'E_USAGE',
    message: `${path}: has pages files already`,
  });
});

test('a dump takes the folder that a running command names for its image directory', async (t) => {
  const { top, run, folder, put } = await requests(t);
  const [path, image] = [await folder('a'), await folder('image')];
  const asked = (name: string) => ({ operation: 'dump', folder: path, image: name }) as const;
  const find = () => requestedForDump(process.pid, join(top, 'image/.'), run);
  await put(`${process.pid}-1`, asked(image));
  await put(await stranger(t), asked(await folder('other')));
  await put(await stranger(t), asked(join(top, 'none')));
  await put(await stranger(t), 'not JSON');
  assert.equal(await find(), undefined);
  const command = await stranger(t);
  await put(command, asked(image));
  const found = await find();
  assert.deepEqual([found?.folder.name, found?.command], [path, command]);
  assert.equal(found?.asker, join(run, commandFolderName('contents', command)));
  await found?.folder.close();
  const own = await folder('own');
  await put(processName(process.ppid), { operation: 'dump', folder: own });
  const first = await find();
  assert.equal(first?.folder.name, own, 'an ancestor comes first');
  await first?.folder.close();
});

test('a restore takes the folders for its contents, also of a command that is no ancestor', async (t) => {
  const { run, folder, put } = await requests(t);
  const [first, second, third] = [await folder('a'), await folder('b'), await folder('c')];
  const taken = async (...roots: string[]) => {
    const found = await requestedForRestore(process.pid, roots, run);
    for (const one of found) await one.close();
    return found.map(({ name }) => name);
  };
  assert.deepEqual(await taken(root), []);
  await put(`${process.pid}-1`, { operation: 'restore', roots: [root], folders: [third] });
  await put(await stranger(t), 'not JSON');
  await put(await stranger(t), { operation: 'dump', folder: third });
  assert.deepEqual(await taken(root), [], 'of a command that has ended');
  await put(await stranger(t), {
    operation: 'restore',
    roots: [root, other],
    folders: [first, second],
  });
  assert.deepEqual(await taken(root), [first, second]);
  assert.deepEqual(await taken(root, other), [first, second]);
  assert.deepEqual(await taken(root, 'ef'.repeat(16)), [], 'for other contents');
  await put(processName(process.ppid), { operation: 'restore', roots: [root], folders: [third] });
  assert.deepEqual(await taken(root), [third], 'an ancestor comes first');
});

test('a request that others can write, or that is no request, is an error for its own command', async (t) => {
  const { top, run, folder, put } = await requests(t);
  const path = await folder('a');
  const name = processName(process.pid);
  for (const text of ['{', '[]', '{"operation":"dump","folder":"relative"}']) {
    await put(name, text);
    await assert.rejects(requestedForDump(process.pid, top, run), /the folders of GPU contents/);
    await assert.rejects(requestedForRestore(process.pid, [root], run), /the folders of GPU/);
  }
  await put(name, { operation: 'dump', folder: path }, 0o777);
  await assert.rejects(requestedForDump(process.pid, top, run), {
    message: /others may write to it/,
  });
});

test('a folder is taken only by its real path, and when nobody else can change it', async (t) => {
  const { top, folder } = await requests(t);
  const path = await folder('own');
  const refused = (name: string, code: string, message: RegExp) =>
    assert.rejects(openOwnFolder(name), { code, message });
  await (await openOwnFolder(path)).close();
  await refused(join(top, 'none'), 'E_NOT_FOUND', /no such folder/);
  await writeFile(join(top, 'file'), '');
  await refused(join(top, 'file'), 'E_NOT_FOUND', /no such folder/);
  await symlink(path, join(top, 'link'));
  await refused(join(top, 'link'), 'E_NOT_FOUND', /no such folder/);
  await mkdir(join(path, 'inner'));
  await refused(join(top, 'link/inner'), 'E_IO', /not the real path/);
  await refused(`${path}/`, 'E_IO', /not the real path/);
  for (const mode of [0o770, 0o702]) {
    await chmod(path, mode);
    await refused(path, 'E_IO', /others may write to it/);
  }
  await chmod(path, 0o700);
  if (process.geteuid?.() !== 0) return;
  await chown(path, 65_534, 0);
  await refused(path, 'E_IO', /belongs to another user/);
});
