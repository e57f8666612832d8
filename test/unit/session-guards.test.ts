/** What stands between an error and a container that hangs, or goes on with wrong contents. */

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { createLogger } from '../../src/log.js';
import { type Descriptor, native } from '../../src/native.js';
import type { DumpedProcess } from '../../src/session/dump/process.js';
import { unpauseSurvivors } from '../../src/session/dump/unpause.js';
import { checkMappings, type Returning } from '../../src/session/restore/returning.js';

const log = createLogger({ level: 'silent' });

function openPidfd(t: TestContext): Descriptor {
  const pidfd = native().openPidfd(process.pid);
  t.after(() => pidfd.close());
  return pidfd;
}

test('each process that was paused and lives is unpaused, whatever happens to another', (t) => {
  const kfd = native().memfd(Buffer.from('stands for /dev/kfd'));
  t.after(() => kfd.close());
  const asked: number[] = [];
  t.mock.method(native(), 'kfdUnpause', (pid: number, file: Descriptor) => {
    asked.push(pid);
    assert.equal(file, kfd);
    if (pid === 2) throw Object.assign(new Error('no'), { code: 'KFD_GPU' });
    return true;
  });
  const alive = new Set<Descriptor>();
  t.mock.method(native(), 'isAlive', (pidfd: Descriptor) => alive.has(pidfd));
  const processOf = (pid: number, lives: boolean, withKfd: boolean) => {
    const pidfd = openPidfd(t);
    if (lives) alive.add(pidfd);
    return { pid, pidfd, ...(withKfd && { kfd }) } as unknown as DumpedProcess;
  };
  const processes = [
    processOf(1, true, true),
    processOf(2, true, true),
    processOf(3, false, true),
    processOf(4, true, false),
    processOf(5, true, true),
  ];
  unpauseSurvivors(processes, log);
  assert.deepEqual(asked, [1, 2, 5]);
});

test('a restore is refused when one GPU mapping did not come back, or one too many', () => {
  const returning = (vmasMapped: number | undefined) =>
    [
      { prepared: { ordinal: 0, summary: { vmas: 2 } }, vmasMapped: 2 },
      { prepared: { ordinal: 1, summary: { vmas: 3 } }, vmasMapped },
    ] as unknown as Returning[];
  checkMappings(returning(3));
  for (const count of [2, 4, 0, undefined]) {
    assert.throws(() => checkMappings(returning(count)), {
      code: 'E_GPU_IO',
      message: `process 1: ${count ?? 0} of 3 GPU mappings came back`,
    });
  }
});
