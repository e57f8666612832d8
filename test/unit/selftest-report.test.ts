/** A report of the self-test can be sent to others: it identifies no host, and no one. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readFacts, secretsOf } from '../../src/selftest/facts.js';
import { redacted, redactor } from '../../src/selftest/redact.js';
import { makeReport, writeReport } from '../../src/selftest/report.js';
import type { StageResult } from '../../src/selftest/stage.js';
import { temporaryFolder } from './paths.js';
import { bentHost } from './sysfs-tree.js';

const failed: StageResult = {
  name: 'pause',
  status: 'failed',
  us: 5,
  code: 'E_IO',
  reason: 'criu on node-7.example.org: failed',
  steps: [{ name: 'gpu 0', note: 'at 0000:03:00.0' }],
  logs: [{ name: 'dump.log', text: `${'x'.repeat(1 << 20)}the end on NODE-7` }],
};

async function reportWith(root: string, stages: readonly StageResult[]) {
  const [facts, host] = await readFacts(root, '1.17');
  return makeReport({
    settings: { size_mib: 16, stages: ['host', 'pause'], gpus: [0, 1], cpu_copies: false },
    programs: { criu: '4.1.1' },
    facts,
    stages,
    node: '24.0.0',
    now: new Date('2026-11-25T12:34:56Z'),
    secrets: secretsOf(host),
  });
}

test('names and numbers of a host are taken out of texts', () => {
  const redact = redactor(['node-7', 'node-7.example.org', 'ab']);
  const cases: [string, string][] = [
    ['node-7.example.org and Node-7, not node-77', '(secret) and (secret), not node-77'],
    ['renderD128 at 0000:03:00.0', 'renderD128 at (pci)'],
    ['from 192.168.0.7:5000, fe80::1:2:3', 'from (ip):5000, (ip)'],
    ['link 00:1a:2b:3c:4d:5e', 'link (mac)'],
    ['machine 123e4567-e89b-12d3-a456-426614174000', 'machine (uuid)'],
    ['pie: 0x7f1234567000', 'pie: (address)'],
    ['vma 7f1234567000-7f1234568000', 'vma (hex)-(hex)'],
    ['container f00dfeedf00dfeed1234', 'container (hex)'],
    ['unique_id 12345678901234567890', 'unique_id (number)'],
    ['/home/somebody/job.tar', '/home/(user)/job.tar'],
    ['by some.body@example.org', 'by (mail)'],
  ];
  for (const [text, expected] of cases) assert.equal(redact(text), expected);
});

test('what a reader needs stays', () => {
  const redact = redactor(['node-7']);
  for (const text of [
    'linux 6.12.117-1, criu 4.1.1',
    'gfx90a, 68719476736 bytes, 12:34:56',
    'Error (criu/cr-dump.c:1234): KFD CHECKPOINT: Invalid argument',
    'stage copy: renderD128: byte 4096 is 0x3f, expected 0x40',
    '/var/log/kfd-checkpoint/2026-11-25T12-34-56-789Z-dump-4711.log',
    'abdefacade',
  ]) {
    assert.equal(redact(text), text);
  }
});

test('every text of a value is redacted, numbers and names of members stay', () => {
  const redact = redactor(['secret-host']);
  assert.deepEqual(
    redacted({ 'secret-host': ['secret-host', { a: 'on secret-host', n: 1e16, x: null }] }, redact),
    { 'secret-host': ['(secret)', { a: 'on (secret)', n: 1e16, x: null }] },
  );
});

test('a report has no name and no address of its host, and short logs', async (t) => {
  const root = await bentHost(t, 'two-gpus', {
    'proc/sys/kernel/hostname': 'node-7.example.org\n',
  });
  const report = await reportWith(root, [failed]);
  const text = JSON.stringify(report);
  assert.doesNotMatch(text, /node-7|example\.org|0000:03:00|0000:43:00/i);
  const log = report.stages[0]?.logs[0]?.text ?? '';
  assert.ok(log.length <= 1 << 16 && log.endsWith('the end on (secret)'), log.slice(-40));
  const ids = readdirSync(join(root, 'sys/class/kfd/kfd/topology/nodes')).map((node) =>
    readFileSync(join(root, `sys/class/kfd/kfd/topology/nodes/${node}/gpu_id`), 'utf8').trim(),
  );
  for (const id of ids.filter((one) => one !== '0')) assert.ok(!text.includes(id), id);
  assert.deepEqual([report.date, report.passed], ['2026-11-25', false]);
});

test('a report says what the hardware is', async (t) => {
  const device = 'sys/devices/pci0000:00/0000:03:00.0';
  const root = await bentHost(t, 'two-gpus', {
    [`${device}/current_compute_partition`]: 'SPX\n',
    [`${device}/numa_node`]: '1\n',
    [`${device}/mem_info_vis_vram_total`]: '268435456\n',
    [`${device}/iommu_group/type`]: 'DMA-FQ\n',
    'sys/devices/system/node/node0/x': '',
    'sys/devices/system/node/node1/x': '',
    'proc/cpuinfo': 'model name : A CPU\nflags : fpu hypervisor\n',
  });
  const { host, gpus } = await reportWith(root, []);
  assert.deepEqual(
    [host.iommu, host.numa_nodes, host.virtual, host.cpu],
    ['DMA-FQ', 2, true, 'A CPU'],
  );
  const [first, second] = gpus;
  assert.deepEqual(
    [first?.compute_partition, first?.numa_node, first?.large_bar],
    ['SPX', 1, false],
  );
  assert.deepEqual([second?.compute_partition, second?.numa_node], [undefined, undefined]);
  assert.equal(second?.large_bar, true);
});

test('the report file is replaced whole, and only its owner reads it', async (t) => {
  const path = join(await temporaryFolder(t), 'report.json');
  writeFileSync(path, 'old', { mode: 0o644 });
  await writeReport(path, '{}\n');
  assert.equal(readFileSync(path, 'utf8'), '{}\n');
  assert.equal(statSync(path).mode & 0o777, 0o600);
  await assert.rejects(writeReport(join(path, 'below-a-file.json'), ''), /ENOTDIR|EEXIST/);
});
