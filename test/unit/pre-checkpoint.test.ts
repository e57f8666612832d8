/** Archives of podman's pre-checkpoints, and those that need one. */

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { archive, entriesOf, gpuCheckpoint, inventory, tarOf } from './archive-builder.js';
import { cli, errorIn } from './cli-context.js';
import { temporaryFolder } from './paths.js';
import { sample } from './restorable.js';
import { bentHost } from './sysfs-tree.js';

const link = { name: 'checkpoint/parent', type: 'symlink', linkname: '../pre-checkpoint' } as const;

/** An archive as podman writes it with --with-previous. */
async function withPrevious(t: TestContext, isCompressed = false): Promise<string> {
  const path = join(await temporaryFolder(t), 'job.tar');
  const tar = await tarOf([...entriesOf(sample()), link]);
  await writeFile(path, isCompressed ? gzipSync(tar) : tar);
  return path;
}

test('check names the option of podman that the archive needs', async (t) => {
  const root = await bentHost(t, 'two-gpus', {});
  const moved = await bentHost(t, 'two-gpus', { 'sys/class/kfd/kfd/dev': '511:0\n' });
  const command = async (path: string, host: string) => {
    const { stdout, code } = await cli(['check', path, '--format', 'json', '--root', host]);
    assert.equal(code, 0);
    return (JSON.parse(stdout) as { command: string[] }).command.slice(1);
  };
  const previous = ['--import-previous', 'PRE-CHECKPOINT'];
  for (const isCompressed of [false, true]) {
    const path = await withPrevious(t, isCompressed);
    const import_ = ['container', 'restore', '--import', path];
    assert.deepEqual(await command(path, root), [...import_, ...previous]);
    assert.deepEqual(await command(path, moved), ['restore', path, ...previous]);
  }
  const path = await archive(t, sample());
  assert.deepEqual(await command(path, root), ['container', 'restore', '--import', path]);
});

test('restore refuses such an archive alone, and hands the other one to podman', async (t) => {
  const path = await withPrevious(t);
  const root = await bentHost(t, 'two-gpus', {});
  let given: readonly string[] = [];
  const restore = (...flags: string[]) =>
    cli(['restore', '--format', 'json', '--root', root, path, ...flags], {
      runThrough: async (_command, args) => {
        given = args;
        return 0;
      },
    });
  const refused = await restore('--keep');
  assert.deepEqual([refused.code, given], [2, []]);
  assert.match(errorIn(refused.stderr).message, /: was made with --with-previous$/);
  assert.match(errorIn(refused.stderr).hint, /"--import-previous FILE"/);
  for (const flags of [['--import-previous=pre.tar'], ['--import-previous', 'pre.tar']]) {
    assert.equal((await restore(...flags)).code, 0);
    assert.deepEqual(given, ['container', 'restore', '--import', path, ...flags]);
  }
});

test('the archive of a pre-checkpoint is called that, not damaged', async (t) => {
  const path = await archive(t, {
    'config.dump': '{}',
    'spec.dump': '{}',
    'pre-checkpoint/inventory.img': inventory,
    'pre-checkpoint/pages-1.img': 'memory',
  });
  for (const verb of ['check', 'inspect', 'verify', 'restore']) {
    const { code, stderr } = await cli([verb, path, '--format', 'json']);
    assert.equal(code, 4, verb);
    const { message, hint } = errorIn(stderr);
    assert.match(message, /: a pre-checkpoint: it has host memory only$/, verb);
    assert.match(hint, /--with-previous/);
  }
});

test('checkpoint --parent refuses to be a pre-checkpoint', async (t) => {
  const parent = await archive(t, gpuCheckpoint().files);
  const run = join(await temporaryFolder(t), 'run');
  const checkpoint = async (...flags: string[]) => {
    const started: string[] = [];
    const args = ['checkpoint', '--quiet', '--run', run, '--parent', parent, 'job', ...flags];
    const { code, stderr } = await cli(args, {
      runThrough: async (_command, words) => {
        started.push(...words);
        return 0;
      },
    });
    return { code, stderr, started };
  };
  for (const flag of ['--pre-checkpoint', '-P', '-kP', '-Pk', '-RPe=x', '--pre-checkpoint=true']) {
    const { code, stderr, started } = await checkpoint(flag, '--export', 'x.tar');
    assert.deepEqual([code, started], [2, []], flag);
    assert.match(stderr, /a pre-checkpoint saves no GPU contents/);
  }
  for (const flags of [
    ['--with-previous', '--export', 'x.tar'],
    ['-ePATH.tar'],
    ['-k', '--export=P.tar'],
  ]) {
    const { code, started } = await checkpoint(...flags);
    assert.deepEqual([code, started], [0, ['container', 'checkpoint', 'job', ...flags].slice(0)]);
  }
});
