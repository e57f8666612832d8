/** The CPU: what is recorded of it, and what a restore asks for. */

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { placeAsIs } from '../../src/gpu/compare.js';
import { hostRecord, readHost } from '../../src/gpu/host.js';
import { type CpuRecord, cpuRecord, type HostCpu, readCpu } from '../../src/gpu/host-cpu.js';
import { native } from '../../src/native.js';
import { hostWith } from './host-builder.js';
import { sampleManifest } from './manifest-sample.js';
import { temporaryFolder } from './paths.js';
import { bentHost } from './sysfs-tree.js';

/** One entry of /proc/cpuinfo. */
const entry = (model: string, flags: string) =>
  `processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: ${model}\nfpu\t\t: yes\n` +
  `flags\t\t: ${flags}\nbugs\t\t: spectre_v1\n\n`;

async function cpuOf(t: TestContext, cpuinfo: string, xsaveBytes?: number) {
  const root = await temporaryFolder(t);
  await mkdir(join(root, 'proc'));
  await writeFile(join(root, 'proc/cpuinfo'), cpuinfo);
  return readCpu(root, xsaveBytes);
}

const zen4: CpuRecord = {
  model: 'AMD EPYC 9654 96-Core Processor',
  flags: ['pni', 'avx', 'avx2', 'avx512f', 'avx512bw'],
  xsave_bytes: 2440,
};

test('flags that user space may depend on are recorded, those of the kernel and mere hints are not', async (t) => {
  const flags = 'fpu sse2 nx pni smep avx pti erms avx2 fsrm avx512f hypervisor avx512bw';
  const cpu = await cpuOf(t, entry(zen4.model, flags).repeat(300), 2440);
  assert.ok(cpu !== undefined);
  assert.deepEqual(cpuRecord(cpu), zen4);
  const root = await bentHost(t, 'two-gpus', { 'proc/cpuinfo': entry(zen4.model, flags) });
  const host = await readHost({ root, kfdVersion: '1.17', xsaveBytes: 2440 });
  assert.ok(host.kfdDevice !== undefined);
  const record = hostRecord({ ...host, kfdVersion: '1.17', kfdDevice: host.kfdDevice });
  assert.deepEqual(record.host.cpu, zen4);
});

test('nothing is recorded where the kernel names no flags: other machines, a missing file', async (t) => {
  assert.equal(await cpuOf(t, 'processor\t: 0\nFeatures\t: fp asimd\n', 16), undefined);
  const host = await readHost({ root: await bentHost(t, 'two-gpus', {}), kfdVersion: '1.17' });
  assert.ok(host.kfdDevice !== undefined);
  const record = hostRecord({ ...host, kfdVersion: '1.17', kfdDevice: host.kfdDevice });
  assert.equal('cpu' in record.host, false);
});

const skip = !existsSync('/proc/cpuinfo') || process.arch !== 'x64' ? 'not x86-64' : false;
test('the CPU of this host is read', { skip }, async () => {
  const cpu = await readCpu('/', native().xsaveBytes());
  assert.ok(cpu !== undefined);
  const record = cpuRecord(cpu);
  assert.ok(record.flags.includes('ssse3'), record.flags.join());
  assert.ok(readFileSync('/proc/cpuinfo', 'utf8').includes(`: ${record.model}\n`));
  // The legacy area, the header and the state of AVX: less is no size of a CPU with AVX.
  if (record.flags.includes('avx')) assert.ok((record.xsave_bytes ?? 0) >= 832);
});

/** Reasons against the sample on a host with this CPU. */
function found(recorded: CpuRecord | undefined, present: Partial<HostCpu> | undefined) {
  const manifest = sampleManifest();
  if (recorded !== undefined) manifest.host.cpu = recorded;
  const cpu = present && {
    model: 'CPU',
    flags: new Set(zen4.flags),
    xsaveBytes: 2440,
    ...present,
  };
  const host = { ...hostWith({ render_minor: 128 }, { render_minor: 129 }), cpu };
  return placeAsIs(manifest, host).mismatches.map(({ code, message }) => `${code} ${message}`);
}

test('a CPU without what the recorded one had is refused, with every missing flag', () => {
  assert.deepEqual(found(zen4, {}), []);
  assert.deepEqual(found(zen4, { flags: new Set([...zen4.flags, 'amx_tile']) }), []);
  assert.deepEqual(found(zen4, { flags: new Set(['pni', 'avx', 'avx2']) }), [
    `E_CPU_MISMATCH cpu: CPU here lacks avx512f, avx512bw; recorded on ${zen4.model}`,
  ]);
  // A later release may record flags that this one does not know.
  const later = { ...zen4, flags: [...zen4.flags, 'avx10_2'] };
  assert.deepEqual(found(later, { flags: new Set(later.flags) }), []);
  assert.deepEqual(found(later, {}), [
    `E_CPU_MISMATCH cpu: CPU here lacks avx10_2; recorded on ${zen4.model}`,
  ]);
});

test('the size of saved registers must be equal, where it is known', () => {
  const reason = (is: number) =>
    `E_CPU_MISMATCH cpu: saved registers (XSAVE) took 2440 bytes on ${zen4.model}, take ${is} here`;
  assert.deepEqual(found(zen4, { xsaveBytes: 832 }), [reason(832)]);
  assert.deepEqual(found(zen4, { xsaveBytes: 11008 }), [reason(11008)]);
  assert.deepEqual(found(zen4, { xsaveBytes: undefined }), []);
  const { model, flags } = zen4;
  assert.deepEqual(found({ model, flags }, { xsaveBytes: 832 }), []);
});

test('a checkpoint or a host without a record is not compared', () => {
  assert.deepEqual(found(undefined, { flags: new Set() }), []);
  assert.deepEqual(found(zen4, undefined), []);
});
