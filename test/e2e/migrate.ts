/**
 * Moving a container, with the second host of support/second-host.ts. To run it in a guest:
 * `npm run test:e2e -- migrate`.
 */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { run, until } from './support/command.js';
import { Container, counter } from './support/container.js';
import { SecondHost } from './support/second-host.js';
import { scenario } from './support/suite.js';

/** Exactly one of both runs it. */
async function whoRuns(job: Container, second: SecondHost): Promise<string> {
  const here = await job.status().catch(() => 'none');
  return `${here} here, ${await second.state(job.name)} there`;
}

scenario('migrate: a dry run, the image, and the container with its GPU contents', ({ engine }) =>
  SecondHost.during(engine, async (second) => {
    const worker = ['--vram-mib', '16', '--host-mib', '8'];
    const job = await Container.start({ engine, worker });
    const before = counter(await job.control.ask('status'));
    await run('podman', 'exec', job.name, 'sh', '-c', 'head -c 3145728 /dev/zero >/written');
    const dry = await second.migrate(job.name, '--dry-run', '--format', 'json');
    const { reasons, changed_bytes, target } = JSON.parse(dry.stdout) as {
      reasons: { code: string }[];
      changed_bytes: number;
      target: { engine_store: { path: string } };
    };
    assert.deepEqual(
      reasons.map(({ code }) => code),
      ['E_IMAGE_MISSING'],
      dry.stdout,
    );
    assert.ok(changed_bytes >= 3 << 20 && changed_bytes < 4 << 20, dry.stdout);
    assert.equal(target.engine_store.path, `${second.folder}/root`);
    const moved = await second.migrate(job.name, '--with-image', '--format', 'json');
    assert.equal(moved.status, 0, moved.stderr);
    assert.match(moved.stderr, /round 1 of 1 is there\n/);
    assert.doesNotMatch(moved.stderr, /memory:? is not sent ahead/);
    const report = JSON.parse(moved.stdout) as {
      downtime_ms: number;
      downtime_from: string;
      before_ms: number;
      bytes: number;
    };
    assert.equal(report.downtime_from, 'freeze', moved.stdout);
    assert.ok(report.before_ms > 0, moved.stdout);
    assert.ok(report.downtime_ms > 0 && report.bytes > 16 << 20, moved.stdout);
    assert.equal(await whoRuns(job, second), 'none here, running there');
    assert.match(await job.control.ask('verify'), /^verified /);
    assert.ok(counter(await job.control.ask('status')) >= before);
    assert.match(
      (await second.podman('exec', job.name, 'wc', '-c', '/written')).stdout,
      /^3145728 /,
    );
    await job.computesOn();
  }),
);

scenario('migrate: what cannot be restored there goes on here, from its own image', ({ engine }) =>
  SecondHost.during(engine, async (second) => {
    const job = await Container.start({ engine, worker: ['--vram-mib', '16'] });
    second.set('fail-restore');
    const { status, stderr } = await second.migrate(job.name, '--with-image');
    assert.equal(status, 1, stderr);
    assert.match(stderr, /did not move, and runs here: second: restore: /);
    assert.equal(await whoRuns(job, second), 'running here, none there');
    assert.match(await job.control.ask('verify'), /^verified /);
    await job.computesOn();
  }),
);

/** Starts the verb, waits for the restore there to be held, kills `whom`, and runs the verb again. */
async function killedWhileHeld(job: Container, second: SecondHost, whom: 'source' | 'target') {
  second.set('hold-restore');
  const words = ['migrate', '--with-image', job.name, 'second'];
  const first = spawn('kfd-checkpoint', words, {
    env: { ...process.env, PATH: second.path },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  first.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  const ended = once(first, 'exit');
  await until('the restore there', () => second.isHeld, 180).catch((error: Error) => {
    throw new Error(`${error.message}: ${said}`);
  });
  if (whom === 'source') first.kill('SIGKILL');
  else {
    const target = second.connections().find(({ words: said }) => said.endsWith('migrate-target'));
    process.kill(target?.pid ?? 0, 'SIGKILL');
  }
  second.unset('hold-restore');
  if (whom === 'target') return ended;
  await ended;
  return second.migrate(job.name);
}

scenario(
  'migrate: SIGKILL of the source, and of the target, while it is being restored',
  async ({ engine }) => {
    for (const whom of ['source', 'target'] as const) {
      await SecondHost.during(engine, async (second) => {
        const job = await Container.start({ engine, worker: ['--vram-mib', '16'] });
        await killedWhileHeld(job, second, whom);
        const runs = await whoRuns(job, second);
        assert.match(runs, /^(running here, none there|none here, running there)$/, whom);
        assert.match(await job.control.ask('verify'), /^verified /);
        await job.computesOn();
        await job.remove();
      });
    }
  },
);
