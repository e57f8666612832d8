/** A checkpoint image that is signed when it is pushed, and pulled where only signed ones are accepted. */

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { archivePath } from './support/archive.js';
import { attempt, run } from './support/command.js';
import { Container, type Engine } from './support/container.js';
import { noRegistry, Registry, registryHost } from './support/registry.js';
import { scenario } from './support/suite.js';

const skopeo = existsSync('/usr/bin/skopeo')
  ? undefined
  : 'skopeo is not in this guest: npm run setup makes its image anew';
const missing = skopeo ?? noRegistry;
/** Where podman learns that signatures are kept beside the image: containers-registries.d(5). */
const places = '/etc/containers/registries.d/lab.yaml';

/** A key, and a policy that accepts only what it has signed. */
async function signer(engine: Engine) {
  const folder = archivePath(engine, 'signer');
  mkdirSync(folder, { mode: 0o700 });
  const [key, phrase, policy] = [
    join(folder, 'key'),
    join(folder, 'phrase'),
    join(folder, 'policy'),
  ];
  writeFileSync(phrase, 'a phrase of the test\n', { mode: 0o600 });
  const made = ['--output-prefix', key, '--passphrase-file', phrase];
  await run('skopeo', 'generate-sigstore-key', ...made);
  const identity = { type: 'matchRepository' };
  const rule = { type: 'sigstoreSigned', keyPath: `${key}.pub`, signedIdentity: identity };
  const text = {
    default: [{ type: 'reject' }],
    transports: { docker: { [registryHost]: [rule] } },
  };
  writeFileSync(policy, JSON.stringify(text));
  return {
    sign: ['--sign-by-sigstore-private-key', `${key}.private`, '--sign-passphrase-file', phrase],
    trust: ['--signature-policy', policy],
  };
}

let registry: Registry | undefined;

scenario(
  'a signed checkpoint image is pulled where only signed ones are accepted',
  async ({ engine, meet }) => {
    const name = `${registryHost}/${engine}/signed`;
    try {
      await meet(async () => {
        registry = await Registry.start();
        mkdirSync('/etc/containers/registries.d', { recursive: true });
        const own = `docker:\n  ${registryHost}:\n    use-sigstore-attachments: true\n`;
        writeFileSync(places, own);
      });
      const { sign, trust } = await signer(engine);
      const job = await Container.start({ engine, worker: ['--vram-mib', '16'] });
      const create = ['container', 'checkpoint', '--create-image', `${name}:1`, job.name];
      await run('podman', '--runtime', engine, ...create);
      await job.remove();
      await run('kfd-checkpoint', 'annotate', `containers-storage:${name}:1`);
      await run('podman', 'push', '--quiet', ...sign, `${name}:1`);
      // A signature belongs to a digest in a repository, not to a tag.
      await run('podman', 'push', '--quiet', `${name}:1`, `${name}-unsigned:1`);
      await run('podman', 'rmi', `${name}:1`);

      const refused = await attempt('podman', 'pull', '--quiet', ...trust, `${name}-unsigned:1`);
      assert.notEqual(refused.status, 0);
      assert.match(refused.stderr, /signature/i);
      await run('podman', 'pull', '--quiet', ...trust, `${name}:1`);
      const stored = `containers-storage:${name}:1`;
      await run('kfd-checkpoint', 'verify', '--quiet', stored);
      const restored = await attempt('kfd-checkpoint', 'restore', '--quiet', stored);
      assert.equal(restored.status, 0, restored.stderr);
      assert.match(await job.control.ask('verify'), /^verified bytes=\d+/);
      await job.computesOn();
    } finally {
      await attempt('podman', 'rmi', '--force', `${name}:1`);
      rmSync(archivePath(engine, 'signer'), { recursive: true, force: true });
      await meet(async () => {
        await registry?.stop();
        registry = undefined;
        rmSync(places, { force: true });
      });
    }
  },
  missing === undefined ? {} : { skip: missing },
);
