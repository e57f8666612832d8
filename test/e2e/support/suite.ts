/** What every scenario asserts around itself: nothing of ours or of the GPU is left behind. */

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { forgetArchives } from './archive.js';
import { sessionCgroups } from './cgroups.js';
import { attempt, until } from './command.js';
import { type Engine, engines, removeContainers } from './container.js';
import { dangerousCalls, type Gpu, gpuObjects, loadGpu } from './gpu.js';
import { type Lane, Lanes } from './lanes.js';
import { partTest } from './part.js';
import { sessionPids } from './session.js';

const runDirectory = '/run/kfd-checkpoint';

export interface ScenarioOptions {
  /** Why it cannot run here. */
  readonly skip?: string;
  /** A GPU of its own. */
  readonly gpu?: Gpu;
}

/** Runs `body` once per engine, side by side, each a test of its own; then nothing may be left. */
export function scenario(
  name: string,
  body: (lane: Lane) => Promise<void>,
  { skip, gpu }: ScenarioOptions = {},
): void {
  partTest(name, { concurrency: true, skip: skip ?? false }, async (suite) => {
    if (gpu !== undefined) await loadGpu(gpu);
    try {
      await inLanes(name, body, suite);
    } finally {
      if (gpu !== undefined) await loadGpu();
    }
  });
}

async function inLanes(
  name: string,
  body: (lane: Lane) => Promise<void>,
  suite: TestContext,
): Promise<void> {
  const lanes = new Lanes(engines.length);
  await Promise.all(
    engines.map((engine) =>
      suite.test(`${name} (${engine})`, () => inLane(lanes, engine, name, body)),
    ),
  );
  await assertNothingLeft();
}

async function inLane(
  lanes: Lanes,
  engine: Engine,
  name: string,
  body: (lane: Lane) => Promise<void>,
): Promise<void> {
  try {
    await body({ engine, meet: (action) => lanes.meet(action) });
  } catch (error) {
    await keepEvidence(`${name} (${engine})`);
    throw error;
  } finally {
    lanes.leave();
    await removeContainers(engine);
    forgetArchives(engine);
  }
}

/** What a failure left in the guest, and `logs`, goes to the host's share before it is cleaned away. */
export async function keepEvidence(name: string, ...logs: readonly string[]): Promise<void> {
  const folder = join('/share', name.replaceAll(/[^\w]+/g, '-'));
  mkdirSync(folder, { recursive: true });
  await attempt('cp', '-r', '/var/log/kfd-checkpoint', ...logs, folder);
  await attempt(
    'sh',
    '-c',
    `for log in /var/lib/containers/storage/overlay-containers/*/userdata/*.log; do
      cp "$log" '${folder}/'$(basename "\${log%/userdata/*}" | cut -c1-12)-$(basename "$log")
    done`,
  );
  writeFileSync('/proc/sysrq-trigger', 't'); // where every task is, into dmesg
  writeFileSync(join(folder, 'dmesg'), (await attempt('dmesg')).stdout);
}

/**
 * No session, no socket, no cgroup, no object on the simulated GPU, no dangerous call. Ends of processes take a
 * moment.
 */
export async function assertNothingLeft(): Promise<void> {
  // Locks of migrations stay until the next boot.
  const left = () =>
    (existsSync(runDirectory) ? readdirSync(runDirectory) : []).filter(
      (name) => name !== 'migrations',
    );
  await until('the end of the sessions', async () => (await sessionPids()).length === 0, 30);
  assert.deepEqual(left(), [], 'session directories left');
  assert.deepEqual(sessionCgroups(), [], 'cgroups of sessions left');
  if (!existsSync('/sys/kernel/debug/simgpu')) return; // the scenario took the GPU out
  const empty = () => Object.values(gpuObjects()).every((count) => count === 0);
  try {
    await until('a GPU without objects', empty, 20);
  } catch {
    assert.fail(`objects left on the simulated GPU: ${JSON.stringify(gpuObjects())}`);
  }
  const dangerous = dangerousCalls();
  assert.ok(
    Object.values(dangerous).every((count) => count === 0),
    `calls that must never be made: ${JSON.stringify(dangerous)}`,
  );
}
