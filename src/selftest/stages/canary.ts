/** Stage canary: CRIU saves and restores the program without a container, with the plugin as it is installed. */

import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { libdir } from '../../criu/state-folder.js';
import { readTextIfAny } from '../../os/files.js';
import type { Bench } from '../bench.js';
import { tailOf } from '../logs.js';
import { TestProgram } from '../program.js';
import { type Kind, must, reasonIn, timed } from '../saving.js';
import type { Stage, StageWork } from '../stage.js';

export function canaryStage(bench: Bench): Stage {
  return { name: 'canary', usesGpu: true, run: (work) => saveAndRestore(bench, work) };
}

async function saveAndRestore(bench: Bench, work: StageWork): Promise<void> {
  const images = join(bench.folder, 'canary');
  await mkdir(images, { mode: 0o700 });
  work.undo('images of the canary', () => rm(images, { recursive: true, force: true }));
  const [program, ready] = await TestProgram.start(bench, work, { child: false });
  const before = await program.control.verified(ready, program.gpus);
  await criu('dump', ['--tree', String(program.pid)], images, bench, work);
  await program.untilGone();
  const pidFile = join(images, 'restored.pid');
  await criu('restore', ['--restore-detached', '--pidfile', pidFile], images, bench, work);
  program.adopt(Number(await readTextIfAny(pidFile)));
  await program.control.verified(before, program.gpus);
  await program.control.ask('exit');
}

/** The plugin's folder is named, because a host that is set up for containerd alone does not name it for CRIU. */
async function criu(
  kind: Kind,
  more: readonly string[],
  images: string,
  bench: Bench,
  work: StageWork,
): Promise<void> {
  const log = `${kind}.log`;
  const path = join(images, log);
  work.logOnFailure(log, () => tailOf(path));
  const places = ['--images-dir', images, '--log-file', log, '-v4', '--libdir', libdir];
  const words = ['criu', kind, ...more, ...places, '--manage-cgroups=ignore'] as const;
  const reason = async () => reasonIn(await tailOf(path));
  const name = kind === 'dump' ? 'saved' : 'restored';
  await timed(bench, work, kind, name, () => must(bench, work, words, reason));
}
