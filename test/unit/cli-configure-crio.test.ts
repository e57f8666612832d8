/** `configure` on a host with CRI-O, which does not start with podman's hook. */

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { installedHost, state } from './able-host.js';
import { cli } from './cli-context.js';

const hook = 'usr/share/containers/oci/hooks.d/50-kfd-checkpoint.json';
const conf = 'etc/criu/default.conf';

async function write(root: string, files: Readonly<Record<string, string>>): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text);
  }
}

async function hostWith(t: TestContext, files: Readonly<Record<string, string>>): Promise<string> {
  const root = await installedHost(t);
  await write(root, files);
  return root;
}

test('where CRI-O reads the folder of hooks, podman gets none, because CRI-O would not start', async (t) => {
  const elsewhere = '[crio.runtime]\nhooks_dir = ["/etc/crio/hooks"]\n';
  const both =
    '[crio.runtime]\nhooks_dir = ["/etc/crio/hooks", "/usr/share/containers/oci/hooks.d/"]\n';
  const cases: [Record<string, string>, boolean][] = [
    [{ 'usr/bin/crio': '' }, false],
    [{ 'etc/crio/crio.conf': '' }, false],
    [{ 'etc/crio/crio.conf': both }, false],
    [{ 'etc/crio/crio.conf': '[crio' }, false],
    [{ 'etc/crio/crio.conf': elsewhere }, true],
    [{ 'etc/crio/crio.conf': both, 'etc/crio/crio.conf.d/10.conf': elsewhere }, true],
  ];
  for (const [files, hasHook] of cases) {
    const root = await hostWith(t, files);
    const { code, stdout, stderr } = await cli(['configure', '--root', root]);
    const said = JSON.stringify([files, stdout, stderr]);
    assert.equal(code, 0, said);
    assert.equal(existsSync(join(root, hook)), hasHook, said);
    assert.equal(/^Note: podman gets no hook, because CRI-O /m.test(stderr), !hasHook, said);
    assert.ok(
      existsSync(join(root, conf)) && existsSync(join(root, state, 'criu/kfd_checkpoint.so')),
      said,
    );
  }
  const later = await installedHost(t);
  await cli(['configure', '--root', later]);
  await write(later, { 'etc/crio/crio.conf': '' });
  assert.match((await cli(['configure', '--root', later])).stdout, /^removed .*50-kfd/m);
});
