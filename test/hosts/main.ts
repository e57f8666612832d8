/**
 * Migrations between two guests, by the system's ssh over a network that can be cut. Both have a simulated GPU; that of
 * host-b has another number. Prints TAP. `npm run test:hosts` runs it in host-a.
 */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { attempt, until } from '../e2e/support/command.js';
import { counter } from '../e2e/support/container.js';
import { loadImage } from '../e2e/support/guest.js';
import {
  hostB,
  installThere,
  meetComplaintThere,
  setNetwork,
  Traveller,
  there,
} from '../e2e/support/host-b.js';
import { install } from '../e2e/support/product.js';

const worker = [
  '--vram-mib',
  '64',
  '--changing-mib',
  '32',
  '--changes-mib',
  '4',
  '--step-ms',
  '500',
];

await Promise.all([install(), loadImage(), installThere()]);

function migrate(job: Traveller, ...options: string[]) {
  return attempt('kfd-checkpoint', 'migrate', ...options, job.name, hostB);
}

/** Nothing of a migration is left on either host. */
async function nothingLeft(): Promise<void> {
  const folders =
    '/var/lib/kfd-checkpoint/migrations /var/lib/kfd-checkpoint/kept /run/kfd-checkpoint';
  const files = `find ${folders} -type f -o -type s -o -type p 2>/dev/null`;
  const list = `${files}; grep ' /run/kfd-checkpoint' /proc/mounts || true`;
  const left = async () => (await attempt('sh', '-c', list)).stdout + (await there(list));
  await until('nothing of the migration is left', async () => (await left()) === '', 30, 500).catch(
    async () => assert.equal(await left(), ''),
  );
}

for (const engine of ['crun', 'runc']) {
  test(`a container moves with its GPU contents and its image (${engine})`, async () => {
    const job = await Traveller.start('job', engine, worker);
    const before = counter(await job.ask('here', 'status'));
    const dry = await migrate(job, '--dry-run', '--format', 'json');
    const { reasons } = JSON.parse(dry.stdout) as { reasons: { code: string }[] };
    const missing = engine === 'crun' ? ['E_IMAGE_MISSING'] : [];
    assert.deepEqual(
      reasons.map(({ code }) => code),
      missing,
      dry.stdout,
    );
    const moved = await migrate(job, '--with-image');
    assert.equal(moved.status, 0, moved.stderr);
    assert.match(moved.stdout, /runs on host-b: stood still for [\d.]+ m?s \(/);
    process.stdout.write(`${`${moved.stderr}\n${moved.stdout}`.replaceAll(/^/gm, '# ')}\n`);
    assert.equal(await job.states(), 'none here, running there');
    assert.match(await job.ask('there', 'verify'), /^verified /);
    assert.ok(counter(await job.ask('there', 'status')) > before);
    await nothingLeft();
    await job.remove();
    await meetComplaintThere();
  });
}

/** Cuts the network while `work` lasts. */
async function withoutNetwork<T>(work: () => Promise<T>): Promise<T> {
  await setNetwork('down');
  try {
    return await work();
  } finally {
    await setNetwork('up');
  }
}

/** Starts the verb; `stderr` is what it has said so far. */
function begin(job: Traveller, ...options: string[]) {
  const words = ['migrate', ...options, job.name, hostB];
  const child = spawn('kfd-checkpoint', words, { stdio: ['ignore', 'ignore', 'pipe'] });
  const said = { stderr: '' };
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said.stderr += text;
  });
  return { said, ended: once(child, 'close').then(([status]) => status as number | null) };
}

test('the network is cut while contents are sent: the container goes on here', async () => {
  const job = await Traveller.start('cut', 'crun', worker);
  const { said, ended } = begin(job, '--precopy', '0');
  await until('the checkpoint', () => /making the checkpoint/.test(said.stderr), 120);
  // ssh gives up by itself: ServerAliveInterval.
  const status = await withoutNetwork(() => ended);
  assert.notEqual(status, 0, said.stderr);
  assert.match(said.stderr, /cut: did not move, and runs here: /);
  assert.equal(await job.states(), 'running here, none there');
  assert.match(await job.ask('here', 'verify'), /^verified /);
  await job.remove();
});

test('the network is cut while it is restored there, and comes back: exactly one host runs it', async () => {
  const job = await Traveller.start('doubt', 'crun', worker);
  const { said, ended } = begin(job, '--precopy', '0', '--lease', '120');
  await until('the lease', () => /being started there/.test(said.stderr), 180);
  await withoutNetwork(() =>
    until('a host that cannot be reached', () => /cannot reach host-b yet/.test(said.stderr), 120),
  );
  const status = await ended;
  const states = await job.states();
  assert.match(states, /^(running here, none there|none here, running there)$/, said.stderr);
  const where = states.startsWith('running') ? 'here' : 'there';
  assert.equal(status === 0, where === 'there', said.stderr);
  assert.match(await job.ask(where, 'verify'), /^verified /);
  await job.remove();
});

test('nothing is left in the folders of sessions', () => {
  assert.deepEqual(
    readdirSync('/run/kfd-checkpoint').filter((name) => name !== 'migrations'),
    [],
  );
});
