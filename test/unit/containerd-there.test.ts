/** What a target says of its containerd, before anything stops. */

import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { containerdThere } from '../../src/migrate/question/containerd-there.js';
import type { Question } from '../../src/migrate/question/documents.js';
import type { Run } from '../../src/os/exec.js';
import { temporaryFolder } from './paths.js';

const digest = 'ab'.repeat(32);
const question: Question = {
  engine: 'containerd',
  namespace: 'work',
  runtime: 'io.containerd.runc.kfd.v2',
  container: 'job',
  image: 'job:1',
  image_id: digest,
  folders: [],
};

/** A containerd that has the image, and no container; or one that does not run. */
const containerd =
  (runs: boolean): Run =>
  async (_, [, namespace, ...words]) => {
    assert.equal(namespace, 'work');
    if (!runs) return { status: 1, stdout: '', stderr: 'ctr: failed to dial\n' };
    if (words[0] === 'container') return { status: 1, stdout: '', stderr: 'ctr: not found\n' };
    if (words[0] === 'plugins')
      return { status: 0, stdout: '   root    /var/lib/c/content\n', stderr: '' };
    return { status: 0, stdout: `REF TYPE DIGEST\njob:1 x sha256:${digest} 3 MiB\n`, stderr: '' };
  };

test('containerd of the target answers, and has our shim', async (t) => {
  const root = await temporaryFolder(t);
  await mkdir(join(root, 'usr/bin'), { recursive: true });
  await writeFile(join(root, 'usr/bin/containerd-shim-kfd-v2'), '', { mode: 0o755 });
  assert.deepEqual(await containerdThere(question, containerd(true), root), {
    failures: [],
    name_taken: false,
    image_id: digest,
    folder: '/var/lib/c/content',
  });
});

test('one that does not run, and one that would start no shim of ours', async (t) => {
  const root = await temporaryFolder(t);
  const found = await containerdThere(question, containerd(false), root);
  assert.match(found.engine_silent ?? '', /ctr version: ended with status 1: ctr: failed to dial/);
  assert.equal(found.image_id, undefined);
  assert.match(found.failures[0]?.message ?? '', /does not find containerd-shim-kfd-v2 for/);
  const absent = await containerdThere(question, async () => undefined, root);
  assert.match(absent.engine_silent ?? '', /ctr: cannot be started: not in PATH/);
});
