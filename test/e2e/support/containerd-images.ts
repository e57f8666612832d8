/** Checkpoint images of containerd as files, and what the verbs say of them. */

import assert from 'node:assert/strict';
import { mkdirSync, rmSync } from 'node:fs';
import { attempt, run } from './command.js';

interface Inspected {
  readonly gpu_state: string;
  readonly runtime: string;
  readonly engine: string;
  readonly gpus: readonly unknown[];
  readonly processes: readonly { readonly comm: string; readonly kfd: { queues: unknown[] } }[];
  readonly buffers: { readonly vram: { readonly count: number; readonly size: number } };
  readonly files: readonly unknown[];
}

const json = async <T>(verb: string, ...args: string[]): Promise<T> =>
  JSON.parse(await run('kfd-checkpoint', verb, '--format', 'json', ...args));

/**
 * Exports `image`, which has one process with `vramBytes` or more, and has `inspect` and `verify` read it by name, as a
 * file and as a folder. Returns the file.
 */
export async function exportedImage(image: string, vramBytes: number): Promise<string> {
  const file = '/tmp/exported.tar';
  const folder = '/tmp/exported';
  for (const one of [file, folder]) rmSync(one, { recursive: true, force: true });
  await run('ctr', 'image', 'export', '--skip-manifest-json', file, image);
  mkdirSync(folder);
  await run('tar', '-C', folder, '-xf', file);
  for (const name of [`oci-archive:${file}`, `oci:${folder}:${image}`]) {
    const found = await json<Inspected>('inspect', name);
    assert.deepEqual([found.gpu_state, found.engine], ['sealed', 'containerd'], name);
    assert.match(found.runtime, /^io\.containerd\.runc\.kfd\.v2$/);
    assert.deepEqual([found.gpus.length, found.processes.length], [1, 1], name);
    assert.equal(found.processes[0]?.comm, 'gpu-worker');
    assert.notEqual(found.processes[0]?.kfd.queues.length, 0);
    assert.ok(found.buffers.vram.size >= vramBytes, `${found.buffers.vram.size}`);
    const { sound, sealed, files } = await json<{
      readonly sound: boolean;
      readonly sealed: boolean;
      readonly files: readonly { readonly problems: readonly string[] }[];
    }>('verify', '--quiet', name);
    assert.deepEqual([sound, sealed, files.length], [true, true, found.files.length], name);
  }
  rmSync(folder, { recursive: true });
  const refused = await attempt('kfd-checkpoint', 'restore', `oci-archive:${file}`);
  assert.equal(refused.status, 2);
  assert.match(refused.stderr, /podman cannot restore it\n.*ctr image import --no-unpack/);
  return file;
}

/**
 * Removes `image`, which is in `file`, and types what `check` says, for a container called `id`. Then containerd has
 * the image again.
 */
export async function restoreExported(image: string, file: string, id: string): Promise<void> {
  const { restorable, steps } = await json<{ restorable: boolean; steps: string[][] }>(
    'check',
    `oci-archive:${file}`,
  );
  assert.ok(restorable);
  assert.equal(steps.length, 2);
  await run('ctr', 'image', 'rm', '--sync', image);
  for (const [program = '', ...words] of steps) {
    await run(program, ...words.map((word) => (word === 'NAME' ? id : word)));
  }
  rmSync(file);
}
