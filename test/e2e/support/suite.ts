/** What every scenario asserts around itself: nothing of ours or of the GPU is left behind. */

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { attempt, until } from './command.js';
import { type Engine, engines } from './container.js';
import { gpuObjects, sessionPids } from './product.js';

const runDirectory = '/run/kfd-checkpoint';

/** Runs `body` once per engine, each a test of its own. */
export function scenario(name: string, body: (engine: Engine) => Promise<void>): void {
  for (const engine of engines) {
    test(`${name} (${engine})`, async () => {
      try {
        await body(engine);
      } catch (error) {
        keepEvidence(`${name} (${engine})`);
        throw error;
      } finally {
        attempt('podman', 'rm', '-f', '-t', '0', '--all');
        rmSync('/tmp/archives', { recursive: true, force: true });
      }
      await assertNothingLeft();
    });
  }
}

/** What a failure left in the guest goes to the host's share before it is cleaned away. */
function keepEvidence(name: string): void {
  const folder = join('/share', name.replaceAll(/[^\w]+/g, '-'));
  mkdirSync(folder, { recursive: true });
  attempt('cp', '-r', '/var/log/kfd-checkpoint', folder);
  attempt(
    'sh',
    '-c',
    `cp /var/lib/containers/storage/overlay-containers/*/userdata/*.log '${folder}'`,
  );
  writeFileSync(join(folder, 'dmesg'), attempt('dmesg').stdout);
}

/** No session, no socket, no object on the simulated GPU. Ends of processes take a moment. */
export async function assertNothingLeft(): Promise<void> {
  await until('the end of the sessions', () => sessionPids().length === 0, 30);
  const sockets = existsSync(runDirectory) ? readdirSync(runDirectory) : [];
  assert.deepEqual(sockets, [], 'session directories left');
  if (!existsSync('/sys/kernel/debug/kfdsim')) return; // the scenario took the GPU out
  const empty = () => Object.values(gpuObjects()).every((count) => count === 0);
  try {
    await until('a GPU without objects', empty, 20);
  } catch {
    assert.fail(`objects left on the simulated GPU: ${JSON.stringify(gpuObjects())}`);
  }
}
