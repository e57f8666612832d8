/** Image layouts, in a folder and in an archive, that are not what they say. */

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { inventory, tarOf } from '../unit/archive-builder.js';
import { containerdLayout, partsOf, types } from '../unit/containerd-layout.js';
import { layout, manifestType } from '../unit/oci-image.js';
import type { HostileInput } from './suite.js';

const layer = Buffer.from('no tar file');
const blob = `blobs/sha256/${createHash('sha256').update(layer).digest('hex')}`;

/** A sound layout with a layer that is no checkpoint, changed by `change`. */
const changed =
  (change: (folder: string) => Promise<unknown> | unknown) =>
  async (dir: string): Promise<readonly string[]> => {
    const folder = join(dir, 'image');
    await layout(folder, [{ layers: [{ bytes: layer }] }]);
    await change(folder);
    return [`oci:${folder}`];
  };

const index = (text: string) => (folder: string) => writeFile(join(folder, 'index.json'), text);
const manifests = (...list: readonly unknown[]) =>
  index(JSON.stringify({ schemaVersion: 2, manifests: list }));
const described = (digest: string, size: unknown = 1) => ({
  mediaType: manifestType,
  digest,
  size,
});
const zeros = `sha256:${'0'.repeat(64)}`;

const documents: Record<string, [(folder: string) => Promise<unknown> | unknown, RegExp?]> = {
  'an index of 1 GiB': [(folder) => truncate(join(folder, 'index.json'), 2 ** 30), /larger than/],
  'an index of 100,000 levels': [index('['.repeat(100_000)), /levels of nesting/],
  'an index of a million values': [
    index(`[${'1,'.repeat(1_000_000)}1]`),
    /more than 100000 values/,
  ],
  'an index that is no JSON': [index('{'), /index\.json: not what/],
  'an index that is a FIFO': [
    async (folder) => {
      await rm(join(folder, 'index.json'));
      execFileSync('mkfifo', [join(folder, 'index.json')]);
    },
    /not a regular file/,
  ],
  'a digest that leaves the layout': [manifests(described('sha256:../../../etc/passwd'))],
  'a digest of another kind': [manifests(described(`sha512:${'0'.repeat(128)}`))],
  'a size below zero': [manifests(described(zeros, -1)), /index\.json: not what/],
  'a size that no number holds': [manifests(described(zeros, 1e300)), /index\.json: not what/],
  'a manifest that is missing': [manifests(described(zeros)), /is missing/],
  'a layer that links to an endless device': [
    async (folder) => {
      await rm(join(folder, blob));
      await symlink('/dev/zero', join(folder, blob));
    },
    /not a file/,
  ],
  'a layer that is a folder': [
    async (folder) => {
      await rm(join(folder, blob));
      await mkdir(join(folder, blob));
    },
    /not a file/,
  ],
  'a layer that is no archive': [() => undefined],
};

const folders: HostileInput[] = Object.entries(documents).map(([name, [change, says]], i) => ({
  name,
  verb: (['inspect', 'check', 'verify', 'restore'] as const)[i % 4] ?? 'inspect',
  status: 5,
  code: 'E_IMAGE_CORRUPT',
  ...(says && { says }),
  args: changed(change),
}));

/** An archive of a layout whose first file is `name`. */
const packed =
  (name: string, entry: { readonly type?: 'symlink'; readonly linkname?: string }) =>
  async (dir: string): Promise<readonly string[]> => {
    const file = join(dir, 'image.tar');
    await writeFile(file, await tarOf([{ name, ...entry }]));
    return [`oci-archive:${file}`];
  };

const archives: HostileInput[] = [
  {
    name: 'an index that links to an endless device',
    verb: 'inspect',
    status: 5,
    code: 'E_IMAGE_CORRUPT',
    args: packed('index.json', { type: 'symlink', linkname: '/dev/zero' }),
  },
  {
    name: 'an index above the folder',
    verb: 'inspect',
    status: 1,
    code: 'E_IO',
    says: /index\.json cannot be unpacked/,
    args: packed('../index.json', {}),
  },
];

/** An image of containerd, changed by `change`. */
const ofContainerd =
  (spec: string | Buffer, change: (paths: Readonly<Record<string, string>>) => unknown) =>
  async (dir: string): Promise<readonly string[]> => {
    const folder = join(dir, 'image');
    const parts = await partsOf({ 'checkpoint/inventory.img': inventory }, spec);
    await change(await containerdLayout(folder, parts));
    return [`oci:${folder}`];
  };
const refused = { status: 5, code: 'E_IMAGE_CORRUPT' } as const;

const containerd: HostileInput[] = [
  {
    name: 'the spec of a container, of 1 GiB',
    verb: 'inspect',
    ...refused,
    says: /larger than/,
    args: ofContainerd('{}', (paths) => truncate(paths[types.spec] ?? '', 2 ** 30)),
  },
  {
    name: 'the spec of a container, with a million values',
    verb: 'check',
    ...refused,
    says: /more than 100000 values/,
    args: ofContainerd(`[${'1,'.repeat(1_000_000)}1]`, () => undefined),
  },
  {
    name: 'CRIU’s tar file in an image of containerd, as a link to an endless device',
    verb: 'verify',
    ...refused,
    says: /not a file/,
    args: ofContainerd('{}', async (paths) => {
      await rm(paths[types.criu] ?? '');
      await symlink('/dev/zero', paths[types.criu] ?? '');
    }),
  },
];

/** Names of images that no shell and no podman may take for something else. */
const names: HostileInput[] = [
  'containers-storage:--help',
  'containers-storage:[overlay@/tmp]x',
  'containers-storage:x y',
  'containers-storage:',
  'oci:',
  'oci-archive::x',
].map((name) => ({
  name: `the name ${name}`,
  verb: 'inspect',
  status: 2,
  code: 'E_USAGE',
  args: () => [name],
}));

export const layouts: HostileInput[] = [...folders, ...archives, ...containerd, ...names];
