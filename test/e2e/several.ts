/** Several GPU processes in one container, on some of the host's several GPUs. */

import assert from 'node:assert/strict';
import { archivePath } from './support/archive.js';
import { Container, removeContainers } from './support/container.js';
import { reloadGpu } from './support/product.js';
import { sessionEnd } from './support/session.js';
import { scenario } from './support/suite.js';

const worker = '--vram-mib 4 --pending-barrier --events-waiter';

/** One line of shell: the children, then the first process's own worker. All report in folders of their own. */
function script(children: Readonly<Record<string, string>>, own: string): string {
  const started = Object.entries(children).map(
    ([name, command]) => `${command.replace('@', `/ctl/${name}`)} &`,
  );
  return `${started.join(' ')} ${own}; echo ended`;
}

scenario(
  'eight GPU processes on two of three GPUs, one that only opened /dev/kfd',
  async ({ engine, meet }) => {
    await meet(() => reloadGpu('gpus=3'));
    try {
      const children: Record<string, string> = { opener: 'kfd-opener @' };
      for (let n = 2; n <= 7; n++) {
        children[`child-${n}`] = `gpu-worker ${worker} --gpu ${n % 2} --seed ${n} --control @`;
      }
      children['child-7'] += ' --fork-holder --double-kfd';
      const job = await Container.start({
        engine,
        flags: ['--device', '/dev/dri/renderD129'],
        folders: Object.keys(children),
        command: ['sh', '-c', script(children, `gpu-worker ${worker}`)],
      });
      const archive = archivePath(engine, 'several.tar');
      const saved = await job.checkpoint('--keep', '--compress', 'none', '--export', archive);
      assert.equal(saved.status, 0, saved.stderr);
      assert.equal((await sessionEnd(job, 'dump'))['processes'], 8);
      await job.remove();
      const restored = await job.restore('--keep', '--import', archive);
      assert.equal(restored.status, 0, restored.stderr);
      for (const control of [job.control, ...job.inner]) {
        assert.match(
          await control.ask('verify'),
          /^verified (bytes=4194304 barrier=completed .*waiter=woken|kfd=)/,
        );
      }
      for (const control of job.inner) assert.match(await control.ask('exit'), /^exiting/);
      assert.match(await job.control.ask('exit'), /^exiting/);
    } finally {
      await removeContainers(engine);
      await meet(() => reloadGpu());
    }
  },
);
