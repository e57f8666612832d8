/** A system with the package unpacked, for tests of `configure containerd`. */

import { cp, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { TestContext } from 'node:test';
import { cli, fakeRun } from './cli-context.js';
import { elf } from './elf.js';
import { repository, temporaryFolder } from './paths.js';

const prefix = '/usr/lib/kfd-checkpoint';
export const dropIn = 'etc/containerd/conf.d/50-kfd-checkpoint.toml';
export const main = 'etc/containerd/config.toml';
export const copies = ['criu/kfd_checkpoint.so', 'kfd-checkpoint-launch', 'criu-action'].map(
  (name) => join('var/lib/kfd-checkpoint', name),
);
export const imports =
  'version = 2\nimports = [ "/etc/other.toml", "/etc/containerd/conf.d/*.toml" ]\n';

/** A system with the package unpacked and containerd's own file, if any. */
export async function system(t: TestContext, ownFile?: string): Promise<string> {
  const root = await temporaryFolder(t);
  for (const part of ['criu/kfd_checkpoint.so', 'libexec/kfd-checkpoint-launch']) {
    await mkdir(dirname(join(root, prefix, part)), { recursive: true });
    await writeFile(join(root, prefix, part), elf(part));
  }
  await cp(join(repository, 'hooks'), join(root, prefix, 'hooks'), { recursive: true });
  if (ownFile !== undefined) {
    await mkdir(join(root, 'etc/containerd'), { recursive: true });
    await writeFile(join(root, main), ownFile);
  }
  return root;
}

const run = (release: string) =>
  fakeRun({
    'containerd --version': `containerd github.com/containerd/containerd ${release} 1234\n`,
  });

export function configure(root: string, release: string, ...args: string[]) {
  return cli(['configure', 'containerd', '--root', root, ...args], { run: run(release) });
}
