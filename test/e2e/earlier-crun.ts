/**
 * Checkpoints of a newer crun, and a host with an earlier one: what that cannot restore is refused before anything
 * stops. To run it in a guest: `npm run test:e2e -- --newest`.
 */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { archivePath } from './support/archive.js';
import { attempt } from './support/command.js';
import { Container } from './support/container.js';
import { earlierCrun } from './support/releases.js';
import { SecondHost } from './support/second-host.js';
import { scenario } from './support/suite.js';

const reason = /crun: 1\.21\S* (here|there) cannot restore masked folders of crun 1\.24 or later/;

async function reasonsAgainst(job: Container, second: SecondHost): Promise<string[]> {
  const { stdout } = await second.migrate(job.name, '--dry-run', '--format', 'json');
  const { reasons } = JSON.parse(stdout) as { reasons: { message: string }[] };
  return reasons.map(({ message }) => message).filter((message) => !message.startsWith('image '));
}

scenario(
  'earlier-crun: masked folders of a newer one are refused, and nothing stops',
  ({ engine }) =>
    SecondHost.during(
      engine,
      async (second) => {
        const job = await Container.start({ engine });
        const [first = '', ...others] = await reasonsAgainst(job, second);
        assert.deepEqual(others, []);
        if (engine === 'runc') return assert.equal(first, '');
        assert.match(first, reason);
        const refused = await second.migrate(job.name, '--with-image');
        assert.match(refused.stderr, reason);
        await job.computesOn();

        const archive = archivePath(engine, 'masked.tar');
        const saved = await job.checkpoint('--export', archive);
        assert.equal(saved.status, 0, saved.stderr);
        await job.remove();
        const check = (path: string) =>
          attempt('env', `PATH=${path}`, 'kfd-checkpoint', 'check', archive);
        const here = await check(`${second.folder}/there:${process.env['PATH']}`);
        assert.equal(here.status, 3, here.stderr);
        assert.match(here.stderr, reason);
        const plain = await check(process.env['PATH'] ?? '');
        assert.equal(plain.status, 0, plain.stderr);
        // It is true: podman comes to CRIU, which has no such mount.
        const importing = ['podman', 'container', 'restore', '--import', archive];
        const runtimes = `CONTAINERS_CONF_OVERRIDE=${second.runtimes}`;
        const restored = await attempt('env', runtimes, ...importing);
        assert.notEqual(restored.status, 0, 'an earlier crun restores it');
        const log = readFileSync(join(job.bundle, 'restore.log'), 'utf8');
        assert.match(log, /No mapping for \S+ mountpoint/);
        await job.remove();
        const again = await attempt('env', ...importing);
        assert.equal(again.status, 0, again.stderr);
        await job.computesOn();
      },
      earlierCrun,
    ),
);

scenario('earlier-crun: a container without masked folders moves to it', ({ engine }) =>
  SecondHost.during(
    engine,
    async (second) => {
      const job = await Container.start({ engine, flags: ['--security-opt', 'unmask=ALL'] });
      assert.deepEqual(await reasonsAgainst(job, second), []);
      const moved = await second.migrate(job.name, '--with-image');
      assert.equal(moved.status, 0, moved.stderr);
      assert.equal(await second.state(job.name), 'running');
      assert.match(await job.control.ask('verify'), /^verified /);
      await job.computesOn();
    },
    earlierCrun,
  ),
);
