/** Containers of podman move. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../e2e/support/command.js';
import { counter } from '../e2e/support/container.js';
import { meetComplaintThere, Traveller } from '../e2e/support/host-b.js';
import {
  begin,
  migrate,
  nothingLeft,
  reasonsAgainst,
  show,
  withoutNetwork,
  worker,
} from './support.js';

for (const engine of ['crun', 'runc']) {
  test(`a container moves with its GPU contents and its image (${engine})`, async () => {
    const job = await Traveller.start('job', engine, worker);
    const before = counter(await job.ask('here', 'status'));
    const missing = engine === 'crun' ? ['E_IMAGE_MISSING'] : [];
    const { codes, said } = await reasonsAgainst(job);
    assert.deepEqual(codes, missing, said);
    const moved = await migrate(job, '--with-image');
    assert.equal(moved.status, 0, moved.stderr);
    assert.match(moved.stdout, /runs on host-b: stood still for [\d.]+ m?s \(/);
    show(moved);
    assert.equal(await job.states(), 'none here, running there');
    assert.match(await job.ask('there', 'verify'), /^verified /);
    assert.ok(counter(await job.ask('there', 'status')) > before);
    await nothingLeft();
    await job.remove();
    await meetComplaintThere();
  });
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
