/** Differences that the operator decides to ignore: by the option, by the configuration, in an archive. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { readContents } from '../../src/archive/contents.js';
import { parseConfig } from '../../src/config.js';
import { placeAsIs, placeOnHost } from '../../src/gpu/compare.js';
import type { Host } from '../../src/gpu/host.js';
import { type Difference, parseDifferences } from '../../src/gpu/ignorable.js';
import type { Manifest } from '../../src/manifest/schema.js';
import { archive, checkpointOfHere, unpackTo, zstdProgram } from './archive-builder.js';
import { cli } from './cli-context.js';
import { hostWith } from './host-builder.js';
import { sampleManifest } from './manifest-sample.js';
import { temporaryFolder } from './paths.js';
import { rawTar } from './raw-tar.js';
import { bentHost } from './sysfs-tree.js';

const cpu = { model: 'source CPU', flags: ['avx', 'avx512f'], xsave_bytes: 2440 };

/** A checkpoint of a host with another CPU, driver and firmware than `otherHost`. */
function recorded(manifest: Manifest): Manifest {
  Object.assign(manifest.host, { cpu, driver: { version: '6.16.6' } });
  for (const gpu of manifest.gpus) Object.assign(gpu, { fw_version: 90 });
  return manifest;
}

const otherHost: Host = {
  ...hostWith({ render_minor: 128, fw_version: 78 }, { render_minor: 129, fw_version: 78 }),
  driver: {},
  cpu: { model: 'other CPU', flags: new Set(['avx']), xsaveBytes: 832 },
};

/** The files of such a host. The CPU saves 2440 bytes of registers, as `fakeNative` says. */
const files = { 'proc/cpuinfo': 'model name\t: other CPU\nflags\t\t: avx\n' };

const kinds = (found: readonly { difference?: Difference }[]) => [
  ...new Set(found.map(({ difference }) => difference)),
];

test('what is ignored is no reason, but is told; the rest stays a reason', () => {
  const manifest = recorded(sampleManifest());
  for (const place of [placeOnHost, placeAsIs]) {
    assert.deepEqual(kinds(place(manifest, otherHost).mismatches), ['driver', 'cpu', 'firmware']);
    const two = place(manifest, otherHost, { ignore_mismatch: ['cpu', 'firmware'] });
    assert.deepEqual(kinds(two.mismatches), ['driver']);
    assert.deepEqual(
      two.ignored.map(({ code, gpu }) => [code, gpu]),
      [
        ['E_CPU_MISMATCH', undefined],
        ['E_CPU_MISMATCH', undefined],
        ['E_GPU_MISMATCH', 0],
        ['E_GPU_MISMATCH', 1],
      ],
    );
    const all = place(manifest, otherHost, { ignore_mismatch: ['cpu', 'driver', 'firmware'] });
    assert.deepEqual(all.mismatches, []);
    assert.equal(all.pairs.length, 2);
  }
  // Another GPU model stays a reason, also with older firmware.
  const gpus = otherHost.gpus.map((gpu) => ({ ...gpu, record: { ...gpu.record, simd_count: 1 } }));
  const other = placeAsIs(manifest, { ...otherHost, gpus }, { ignore_mismatch: ['firmware'] });
  const models = other.mismatches.filter(({ code }) => code === 'E_GPU_MISMATCH');
  assert.deepEqual(
    models.map(({ difference }) => difference),
    [undefined, undefined],
  );
});

test('an archive that was rewritten says itself what to ignore', () => {
  const manifest = { ...recorded(sampleManifest()), ignored: ['cpu', 'driver'] as Difference[] };
  assert.deepEqual(kinds(placeAsIs(manifest, otherHost).mismatches), ['firmware']);
});

test('a host is told of the option where it matters', () => {
  const { mismatches } = placeAsIs(recorded(sampleManifest()), otherHost);
  for (const { hint } of mismatches) assert.match(hint, /ignore_mismatch/);
});

test('names of differences are checked, on the command line and in the configuration', async () => {
  assert.deepEqual(parseDifferences('cpu,firmware'), ['cpu', 'firmware']);
  for (const text of ['', 'cpu,', 'kernel', 'cpu driver']) {
    assert.throws(() => parseDifferences(text), { code: 'E_USAGE' }, text);
  }
  assert.deepEqual(parseConfig('{"ignore_mismatch":["driver"]}').config.ignore_mismatch, [
    'driver',
  ]);
  for (const text of ['["kernel"]', '"cpu"', '[1]']) {
    const config = `{"ignore_mismatch":${text}}`;
    assert.throws(() => parseConfig(config), { code: 'E_CONFIG', message: /"ignore_mismatch/ });
  }
  assert.equal((await cli(['check', '--ignore-mismatch', 'cpu'])).code, 2);
});

/** A checkpoint of the other CPU, with what `kfd-checkpoint restore` needs to rewrite it. */
async function otherCpu(t: TestContext): Promise<string> {
  const kfd = { name: './kfd', type: '3', major: 234, minor: 0 };
  return archive(t, {
    ...checkpointOfHere((manifest) => Object.assign(manifest.host, { cpu })),
    'checkpoint/tmpfs-dev-38.tar.gz.img': gzipSync(rawTar([kfd])),
    'spec.dump': '{"linux":{"devices":[{"path":"/dev/kfd","type":"c","major":234,"minor":0}]}}',
  });
}

interface Report {
  readonly restorable: boolean;
  readonly command?: readonly string[];
  readonly ignored: readonly { difference: string; message: string }[];
  readonly reasons: readonly { code: string; difference?: string }[];
}

async function check(path: string, root: string, ...more: string[]) {
  const result = await cli(['check', path, '--format', 'json', '--root', root, ...more]);
  return { ...result, report: JSON.parse(result.stdout) as Report };
}

test('check: the reason, the command that ignores it, and what is ignored', async (t) => {
  const path = await otherCpu(t);
  const root = await bentHost(t, 'two-gpus', files);
  const refused = await check(path, root);
  assert.equal(refused.code, 5);
  assert.deepEqual(
    refused.report.reasons.map(({ code, difference }) => [code, difference]),
    [['E_CPU_MISMATCH', 'cpu']],
  );
  const { code, report } = await check(path, root, '--ignore-mismatch', 'driver,cpu');
  assert.equal(code, 0);
  assert.deepEqual(report.command, ['kfd-checkpoint', 'restore', '--ignore-mismatch', 'cpu', path]);
  assert.deepEqual(
    report.ignored.map(({ message }) => message),
    ['cpu: other CPU here lacks avx512f; recorded on source CPU'],
  );
  const text = (await cli(['check', path, '--root', root, '--ignore-mismatch', 'cpu'])).stdout;
  assert.match(text, /^IGNORED +DIFFERENCE.*\ncpu +cpu: other CPU here lacks avx512f/m);
});

test('check: podman alone restores what the configuration ignores', async (t) => {
  const path = await otherCpu(t);
  const config = { 'etc/kfd-checkpoint/config.json': '{"ignore_mismatch":["cpu"]}' };
  const root = await bentHost(t, 'two-gpus', { ...files, ...config });
  for (const option of [[], ['--ignore-mismatch', 'cpu']]) {
    const { report } = await check(path, root, ...option);
    assert.deepEqual(report.command, ['podman', 'container', 'restore', '--import', path]);
  }
  // podman restores an image directory as it is, so only the configuration counts for one.
  const bundle = await temporaryFolder(t);
  await unpackTo(
    bundle,
    checkpointOfHere((manifest) => Object.assign(manifest.host, { cpu })),
  );
  const image = join(bundle, 'checkpoint');
  assert.equal((await check(image, root)).code, 0);
  const plain = await bentHost(t, 'two-gpus', files);
  assert.equal((await check(image, plain, '--ignore-mismatch', 'cpu')).code, 5);
});

test('restore: podman gets an archive that says what to ignore, only where that matters', async (t) => {
  const path = await otherCpu(t);
  const restore = async (root: string, ...more: string[]) => {
    let bytes: Buffer | undefined;
    let given: readonly string[] = [];
    const result = await cli(['restore', '--root', root, ...more, path], {
      runThrough: async (_command, words, descriptor) => {
        given = words;
        if (descriptor !== undefined) bytes = readFileSync(`/proc/self/fd/${descriptor}`);
        return 0;
      },
    });
    return { ...result, given, bytes };
  };
  const root = await bentHost(t, 'two-gpus', files);
  const refused = await restore(root);
  assert.equal(refused.code, 5);
  assert.match(refused.stderr, /would not restore here: cpu: other CPU here lacks avx512f/);
  assert.deepEqual(refused.given, []);
  const { code, stderr, bytes } = await restore(root, '--ignore-mismatch', 'cpu,driver');
  assert.equal(code, 0, stderr);
  assert.match(stderr, /^ignored \(cpu\): cpu: other CPU here lacks avx512f/m);
  const copy = join(await temporaryFolder(t), 'copy.tar');
  await writeFile(copy, bytes ?? '');
  const { manifest } = await readContents(copy, { zstdDecoder: zstdProgram });
  assert.deepEqual(manifest?.ignored, ['cpu']);
  assert.deepEqual(manifest?.host.cpu, cpu);
  // Where nothing differs, podman gets the archive itself, whatever would be ignored.
  const same = await bentHost(t, 'two-gpus', {
    'proc/cpuinfo': 'model name\t: source CPU\nflags\t\t: avx avx512f\n',
  });
  assert.equal((await restore(same, '--ignore-mismatch', 'cpu')).given.includes(path), true);
});
