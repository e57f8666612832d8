/** Archives that were damaged on the way: refused with the reason, and nothing is left. */

import assert from 'node:assert/strict';
import { copyFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { archivePath, flipByte, rewriteArchive, truncateBy } from './support/archive.js';
import { Container } from './support/container.js';
import { assertExplained } from './support/explained.js';
import { assertNothingLeft, scenario } from './support/suite.js';

const pages = 'amdgpu-pages-0-0000.img';

const damages = [
  {
    name: 'truncated pages file',
    damage: (image: string) => truncateBy(join(image, pages), 8192),
    reason: /amdgpu-pages-0-0000\.img: is \d+ bytes, was \d+ when sealed/,
  },
  {
    name: 'one flipped byte in a frame',
    // In the middle of the file lie frames: the index is a few KiB at the end.
    damage: (image: string) =>
      flipByte(join(image, pages), Math.floor(statSync(join(image, pages)).size / 2)),
    reason: /amdgpu-pages-0-0000\.img: .*(checksum|digest|does not match)/,
  },
  {
    name: 'unsealed manifest',
    damage: (image: string) => rmSync(join(image, 'kfd-manifest.json')),
    reason: /E_IMAGE_UNSEALED/,
  },
] as const;

scenario(
  'damaged archives are refused, and the sound one still restores',
  async ({ engine, meet }) => {
    const archive = archivePath(engine, 'sound.tar');
    const job = await Container.start({
      engine,
      worker: ['--vram-mib', '16', '--pending-barrier'],
    });
    const saved = await job.checkpoint('--compress', 'none', '--export', archive);
    assert.equal(saved.status, 0, saved.stderr);
    await job.remove();

    for (const { name, damage, reason } of damages) {
      const damaged = archivePath(engine, 'damaged.tar');
      copyFileSync(archive, damaged);
      await rewriteArchive(damaged, damage);
      const restored = await job.restore('--import', damaged);
      assert.notEqual(restored.status, 0, `${name}: restored all the same`);
      await assertExplained(job, 'restore', restored, reason);
      await job.remove();
      await meet(assertNothingLeft);
    }
    const restored = await job.restore('--import', archive);
    assert.equal(restored.status, 0, restored.stderr);
    assert.match(await job.control.ask('verify'), /^verified .*barrier=completed/);
  },
);
