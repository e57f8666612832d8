/** Checkpoint and restore on the same host, without an archive, again and again. */

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { run } from './support/command.js';
import { Container } from './support/container.js';
import { configure } from './support/product.js';
import { haveNextCriu, useNextCriu } from './support/releases.js';
import { sessionEnd } from './support/session.js';
import { scenario } from './support/suite.js';

async function save(job: Container): Promise<void> {
  const saved = await job.checkpoint();
  assert.equal(saved.status, 0, saved.stderr);
}

async function bringBack(job: Container): Promise<void> {
  const restored = await job.restore('--keep', job.name);
  assert.equal(restored.status, 0, restored.stderr);
  assert.match(await job.control.ask('verify'), /^verified .*barrier=completed/);
}

/** How long the last upload ran beside CRIU's own work, in microseconds. */
async function overlapped(job: Container): Promise<number> {
  const { timings_us: timings } = await sessionEnd(job, 'restore');
  return timings?.['upload_overlapped'] ?? Number.NaN;
}

/** Puts Debian's Node.js, and the CRIU that Debian is going to have, in the place of the guest's. */
async function mountOthers(): Promise<void> {
  await run('mount', '--bind', '/usr/bin/node', '/usr/local/bin/node');
  if (!haveNextCriu) return;
  await useNextCriu();
  assert.doesNotMatch(await run('criu', '--version'), /4\.[01]\b/);
}

async function unmountOthers(): Promise<void> {
  await run('umount', '--lazy', '/usr/local/bin/node'); // a session may still be about to end
  if (haveNextCriu) await run('umount', '/usr/sbin/criu');
}

const name =
  'in place, three times: with `parallel` false, from a read-only image directory, with another Node.js and CRIU';

scenario(name, async ({ engine, meet }) => {
  const job = await Container.start({
    engine,
    network: 'bridge',
    worker: ['--vram-mib', '16', '--pending-barrier'],
  });
  await save(job);
  await meet(async () => configure({ parallel: false }));
  await bringBack(job);
  assert.equal(await overlapped(job), 0);
  await meet(async () => configure({}));

  await save(job);
  const image = join(job.bundle, 'checkpoint');
  await run('mount', '-o', 'bind,ro', image, image);
  try {
    await bringBack(job);
    assert.ok((await overlapped(job)) > 0);
  } finally {
    await run('umount', '--lazy', image); // the session may still be about to end
  }

  await meet(() => mountOthers());
  try {
    await save(job);
    await bringBack(job);
  } finally {
    await meet(() => unmountOthers());
  }
  assert.match(await job.control.ask('exit'), /^exiting /);
});

// The third round above is then one with the guest's own CRIU.
if (!haveNextCriu) {
  const reason = 'there was no second CRIU when the guest was made';
  scenario('with the CRIU that Debian is going to have', async () => undefined, { skip: reason });
}
