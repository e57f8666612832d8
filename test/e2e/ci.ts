/**
 * examples/ci/kfd-ci with podman: warm starts from a layout and from a registry, what becomes of hosts that do not fit,
 * and a migration. To run it in a guest: `npm run lab -- node dist/test/e2e/main.js ci`.
 */

import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { archivePath } from './support/archive.js';
import { attempt, attemptWithin, run, until } from './support/command.js';
import { Control, counter, type Engine, image as worker } from './support/container.js';
import { gpuFlags } from './support/devices.js';
import {
  gpuWith,
  hideRelease,
  loadGpu,
  loadWhenUnused,
  showRelease,
  unloadGpu,
} from './support/gpu.js';
import { noRegistry, Registry, registryHost } from './support/registry.js';
import { SecondHost } from './support/second-host.js';
import { assertNothingLeft, scenario } from './support/suite.js';

/** A save is a start, a checkpoint, an image of it and another one with annotations. */
const limitS = 900;

interface Summary {
  readonly status: number;
  readonly start: string;
  readonly reason: string;
  readonly code: string;
  readonly report: Readonly<Record<string, unknown>> | null;
}

/** Runs the script with `words`, before which `env` may stand. */
async function ci(words: readonly string[], env: readonly string[] = []): Promise<Summary> {
  const command = [...env, 'sh', '/repo/examples/ci/kfd-ci', ...words];
  const { status, stdout, stderr } = await attemptWithin(limitS, 'env', ...command);
  const summary = JSON.parse(stdout || '{}') as Summary;
  assert.equal(summary.status, status, `${words.join(' ')}: ${stdout}\n${stderr}`);
  return summary;
}

class Job {
  readonly name: string;
  readonly control: Control;
  readonly #engine: Engine;

  constructor(engine: Engine) {
    this.name = `${engine}-ci`;
    this.#engine = engine;
    this.control = new Control(this.name);
    rmSync(this.control.folder, { recursive: true, force: true });
    mkdirSync(this.control.folder, { recursive: true });
  }

  /** What both verbs get, before the words of "podman run". */
  get options(): string[] {
    const ready = ['--ready', 'grep -q ^ready /ctl/status', '--wait', '200'];
    return ['--name', this.name, '--runtime', this.#engine, ...ready];
  }

  get words(): string[] {
    const volume = ['-v', `${this.control.folder}:/ctl`];
    const command = [worker, 'gpu-worker', '--vram-mib', '16'];
    return ['--', '--network', 'none', ...gpuFlags(0), ...volume, ...command];
  }

  /** Asserts that it runs, with sound contents, and ends it. */
  async worksAndGoes(): Promise<void> {
    assert.match(await this.control.ask('verify'), /^verified /);
    const now = async () => counter(await this.control.ask('status'));
    const before = await now();
    await until(`a counter above ${before}`, async () => (await now()) > before, 20);
    await this.goes();
  }

  async goes(): Promise<void> {
    await attempt('podman', 'rm', '-f', '-t', '0', this.name);
  }

  /** The worker says that it is ready once only. A restored one finds what it has said before. */
  forgetReady(): void {
    rmSync(`${this.control.folder}/status`);
  }
}

async function assertWarm(job: Job, image: string, ...more: string[]): Promise<void> {
  const { status, start, reason } = await ci(['start', image, ...job.options, ...more]);
  assert.deepEqual([status, start, reason], [0, 'warm', 'restored']);
  await job.worksAndGoes();
}

const misfits = [
  { name: 'no GPU', become: () => unloadGpu(), undo: () => loadGpu(), is: [11, 'no-gpu'] },
  {
    name: 'too little VRAM',
    become: () => loadGpu(gpuWith('vram_mb=16')),
    undo: () => loadGpu(),
    is: [12, 'no-room'],
  },
  {
    name: 'another kernel',
    become: () => showRelease(['behaves_as=7.2']),
    undo: () => hideRelease(),
    is: [10, 'other-kernel'],
  },
] as const;

scenario('ci: a warm start from a layout, and hosts that do not fit', async (lane) => {
  const { engine, meet } = lane;
  const job = new Job(engine);
  const image = `oci:${archivePath(engine, 'warm')}`;
  const junit = archivePath(engine, 'junit.xml');
  try {
    const saved = await ci(['save', image, ...job.options, '--junit', junit, ...job.words]);
    assert.deepEqual([saved.status, saved.reason], [0, 'saved']);
    const suite = /<testsuite name="kfd-ci save" tests="6" failures="0" errors="0" skipped="0"/;
    assert.match(readFileSync(junit, 'utf8'), suite);
    await assertWarm(job, image);

    const start = ['start', image, ...job.options];
    for (const { name, become, undo, is } of misfits) {
      await meet(async () => {
        await assertNothingLeft();
        await become();
      });
      try {
        const { status, reason, code } = await ci(start);
        assert.deepEqual([status, reason], is, `${name}: ${code}`);
      } finally {
        await meet(async () => void (await undo()));
      }
    }
    const gone = await ci(['start', `oci:${archivePath(engine, 'gone')}`, ...job.options]);
    assert.deepEqual([gone.status, gone.reason], [10, 'missing-image']);

    await meet(() => loadGpu(gpuWith('device_id=0x66a1'))); // gfx906
    const refused = await ci(start);
    assert.deepEqual([refused.status, refused.reason], [10, 'other-gpu']);
    job.forgetReady();
    const cold = await ci([...start, '--junit', junit, ...job.words]);
    assert.deepEqual([cold.status, cold.start, cold.reason], [0, 'cold', 'other-gpu']);
    assert.match(readFileSync(junit, 'utf8'), /<skipped message="other-gpu: E_GPU_MISMATCH: /);
    await job.worksAndGoes();
  } finally {
    await job.goes();
    await meet(loadWhenUnused);
  }
});

let registry: Registry | undefined;

scenario(
  'ci: a warm start from a registry, with annotations of podman and of the GPU',
  async ({ engine, meet }) => {
    const job = new Job(engine);
    const image = `${registryHost}/${engine}/warm:1`;
    try {
      await meet(async () => {
        registry = await Registry.start();
      });
      const saved = await ci(['save', image, ...job.options, ...job.words]);
      assert.deepEqual([saved.status, saved.reason], [0, 'saved']);
      await run('podman', 'rmi', image);
      await assertWarm(job, image, ...job.words);
      const [pulled] = JSON.parse(await run('podman', 'image', 'inspect', image)) as {
        Annotations: Record<string, string>;
      }[];
      const annotations = pulled?.Annotations ?? {};
      assert.equal(annotations['io.podman.annotations.checkpoint.name'], job.name);
      assert.equal(annotations['org.criu.checkpoint.gpu.vendor'], 'amd');
      assert.equal(annotations['org.criu.checkpoint.gpu.model'], 'gfx90a');
      assert.equal(annotations['org.criu.checkpoint.gpu.count'], '1');
      const other = `${registryHost}/${engine}/none:1`;
      const missing = await ci(['start', other, ...job.options]);
      assert.deepEqual([missing.status, missing.reason], [10, 'missing-image']);
    } finally {
      await job.goes();
      await attempt('podman', 'rmi', '--force', image);
      await meet(async () => {
        await registry?.stop();
        registry = undefined;
      });
    }
  },
  noRegistry === undefined ? {} : { skip: noRegistry },
);

scenario('ci: a migration and its verdict', ({ engine }) =>
  SecondHost.during(engine, async (second) => {
    const job = new Job(engine);
    const words = ['run', '-d', '--name', job.name, ...job.words.slice(1)];
    await run('podman', '--runtime', engine, ...words);
    await job.control.ready();
    const migrate = ['migrate', job.name, 'second'];
    const path = [`PATH=${second.path}`];
    const asked = await ci([...migrate, '--dry-run'], path);
    assert.deepEqual(
      [asked.status, asked.reason, asked.code],
      [20, 'not-moved', 'E_IMAGE_MISSING'],
    );
    second.set('fail-restore');
    const stays = await ci([...migrate, '--with-image'], path);
    assert.deepEqual([stays.status, stays.reason], [20, 'not-moved']);
    second.unset('fail-restore');
    const slow = await ci([...migrate, '--fail-above', '1'], path);
    assert.deepEqual([slow.status, slow.reason], [22, 'too-slow'], JSON.stringify(slow));
    assert.equal(await second.state(job.name), 'running');
    assert.match(await job.control.ask('verify'), /^verified /);
    const gone = await ci(migrate, path);
    assert.deepEqual([gone.status, gone.reason], [21, 'not-running']);
  }),
);
