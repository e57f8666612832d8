/** A container without a GPU: what it goes through, whatever the host has of us. */

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { archivePath } from './archive.js';
import { attempt, until } from './command.js';
import { type Engine, image } from './container.js';

/**
 * Run, checkpoint into an archive, restore from it, look inside. `name`: of what the host has of ours at this time, for
 * failures.
 */
export async function plainLife(engine: Engine, name: string): Promise<void> {
  const job = `${engine}-plain`;
  const archive = archivePath(engine, 'plain.tar');
  const podman = async (...args: string[]) => {
    const result = await attempt('podman', ...args);
    assert.equal(result.status, 0, `${name}: podman ${args.join(' ')}\n${result.stderr}`);
    return result.stdout;
  };
  const folder = `/tmp/ctl/${job}`;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  // Not before it is asked: a checkpoint in the middle of the copy would want its file again.
  const program =
    'echo kept > /kept; until [ -e /ctl/ask ]; do sleep 0.1; done; cp /kept /ctl/; sleep 600';
  const flags = ['-d', '--name', job, '-v', `${folder}:/ctl`];
  await podman('--runtime', engine, 'run', ...flags, image, 'sh', '-c', program);
  await podman('container', 'checkpoint', '--compress', 'none', '--export', archive, job);
  await podman('rm', '-f', job);
  await podman('container', 'restore', '--import', archive);
  writeFileSync(join(folder, 'ask'), '');
  const kept = () => existsSync(join(folder, 'kept'));
  await until(`${name}: the restored program`, kept, 30);
  const annotations = await podman('inspect', '-f', '{{json .Config.Annotations}}', job);
  assert.doesNotMatch(annotations, /kfd-checkpoint/, name);
  await podman('rm', '-f', '-t', '0', job);
}
