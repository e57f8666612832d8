/** Hostile documents of the container engine, and hostile images of /dev: what `restore` rewrites. */

import { randomBytes } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import type { ErrorCode } from '../../src/errors.js';
import type { Files } from '../unit/archive-builder.js';
import { type RawEntry, rawTar } from '../unit/raw-tar.js';
import { packed, type ReadingVerb, readingArgs, soundEntries } from './forms.js';
import { archiveOf, deviceImage, soundFiles, written } from './sound.js';
import type { HostileInput } from './suite.js';

/** The sound archive with other contents of some files. */
function changed(
  verb: ReadingVerb,
  name: string,
  change: (files: Files) => void,
  rest: Partial<HostileInput> & Pick<HostileInput, 'says'>,
): HostileInput {
  return {
    name,
    verb,
    status: 5,
    ...((rest.status ?? 5) === 5 && { code: 'E_IMAGE_CORRUPT' as ErrorCode }),
    args: async (dir) => {
      const files = await soundFiles();
      change(files);
      return readingArgs(verb, dir, await archiveOf(dir, files));
    },
    ...rest,
  };
}

const mib = (count: number) => count << 20;
const spec = 'spec.dump';
const config = 'config.dump';
const deep = /more than 100 levels/;
const large = /larger than/;
const many = /more than 100000 values/;
const set = (name: string, text: Buffer | string) => (files: Files) => {
  files[name] = text;
};
const manyMounts = JSON.stringify({
  mounts: Array.from({ length: 15_000 }, (_, i) => ({
    destination: `/${i}`,
    type: 'bind',
    source: `/none/${i}`,
  })),
});

const documents: HostileInput[] = [
  ...[spec, config].flatMap((name) => [
    changed('inspect', `${name} of "["`, set(name, '['.repeat(mib(4) - 1)), { says: deep }),
    changed('check', `${name} of {"a":`, set(name, '{"a":'.repeat(mib(4) / 5 - 1)), { says: deep }),
    changed(
      'restore',
      `${name} with deep devices`,
      set(name, `{"linux":{"devices":${'['.repeat(500)}`),
      { says: deep },
    ),
    changed('inspect', `${name} of 5 MiB`, set(name, ' '.repeat(mib(5))), { says: large }),
    changed('restore', `${name} that is not UTF-8`, set(name, Buffer.from([0x7b, 0xff, 0x7d])), {
      says: /not UTF-8/,
    }),
    changed('restore', `${name} with comments`, set(name, '{/* x */}'), {
      says: /JSON|Unexpected/,
    }),
    changed('restore', `${name} that is cut`, set(name, '{"linux":{'), { says: /JSON|Unexpected/ }),
    changed('restore', `${name} that is empty`, set(name, ''), { says: /JSON|Unexpected/ }),
    changed(
      'restore',
      `${name} of 4 MiB of numbers`,
      set(name, `{"a":[${'1,'.repeat(mib(4) / 2 - 10)}1]}`),
      { says: many },
    ),
    changed(
      'inspect',
      `${name} of 4 MiB of objects`,
      set(name, `{"a":[${'{},'.repeat(mib(4) / 3 - 10)}{}]}`),
      { says: many },
    ),
    changed(
      'restore',
      `${name} with 90,000 numbers`,
      set(name, `{"a":[${'1,'.repeat(90_000)}1]}`),
      {
        says: /234:0 becomes 511:0/,
        status: 0,
        podman: true,
      },
    ),
    changed('inspect', `${name} of a number`, set(name, '7'), { says: /./, status: 0 }),
  ]),
  changed('restore', 'devices twice', set(spec, '{"linux":{"devices":[],"devices":[]}}'), {
    says: /twice/,
  }),
  changed('restore', 'linux twice', set(spec, '{"linux":{},"linux":{"devices":[]}}'), {
    says: /twice/,
  }),
  changed('restore', 'devices of text', set(spec, '{"linux":{"devices":"all"}}'), {
    says: /spec\.dump: /,
  }),
  changed(
    'restore',
    'a device number of text',
    set(spec, '{"linux":{"devices":[{"type":"c","major":"1"}]}}'),
    { says: /spec\.dump: / },
  ),
  changed('restore', 'annotations of numbers', set(spec, '{"annotations":{"a":1}}'), {
    says: /spec\.dump: /,
  }),
  changed('restore', 'no spec', (files) => delete files[spec], { says: /spec\.dump is missing/ }),
  changed('restore', 'no config', (files) => delete files[config], {
    says: /config\.dump is missing/,
  }),
  changed('check', '15,000 mounts that are not on this host', set(spec, manyMounts), {
    says: /and 14999 more/,
    status: 3,
    code: 'E_HOST',
  }),
  changed(
    'inspect',
    'names of control characters',
    set(config, JSON.stringify({ name: '\u001b[2J\u202e\u0085x', id: '\u0007' })),
    { says: /\?\[2J/, status: 0 },
  ),
  {
    ...changed(
      'inspect',
      'control characters in JSON',
      set(config, JSON.stringify({ name: '\u009b2J\u202e\u2066x' })),
      { says: /\\u009b2J\\u202e/, status: 0 },
    ),
    args: async (dir) => {
      const files = await soundFiles();
      files[config] = JSON.stringify({ name: '\u009b2J\u202e\u2066x' });
      return ['--format', 'json', await archiveOf(dir, files)];
    },
  },
];

const kfd: RawEntry = { name: './kfd', type: '3', major: 234, minor: 0 };
const dev = (image: Buffer) => set(deviceImage, image);
const noNode = {
  says: /no image of a tmpfs in the archive has its node/,
  status: 1,
  code: 'E_UNSUPPORTED_STATE' as const,
};
const tmpfs = (i: number) => `checkpoint/tmpfs-dev-${i}.tar.gz.img`;

const devices: HostileInput[] = [
  changed('restore', 'an image of /dev of text', dev(Buffer.from('hello')), {
    says: /incorrect header|tmpfs-dev/,
  }),
  changed('restore', 'an image of /dev that is cut', dev(gzipSync(rawTar([kfd])).subarray(0, 40)), {
    says: /tmpfs-dev/,
  }),
  changed(
    'restore',
    'an image of /dev without end',
    dev(gzipSync(rawTar([kfd]).subarray(0, 512))),
    { says: /the end is missing/ },
  ),
  changed('restore', 'an image of /dev that is empty', dev(gzipSync(Buffer.alloc(0))), {
    says: /the end is missing|header is cut/,
  }),
  changed(
    'restore',
    'an image of /dev with a size beyond its end',
    dev(gzipSync(rawTar([{ name: './x', size: 1 << 30 }, kfd]))),
    { says: /the end is missing/ },
  ),
  changed(
    'restore',
    'an image of /dev with a size of 0x81...',
    dev(gzipSync(rawTar([{ name: './x', bend: (block) => block.fill(0x81, 124, 136) }, kfd]))),
    { says: /too large/ },
  ),
  changed(
    'restore',
    'an image of /dev with a sparse file without end',
    dev(
      gzipSync(
        rawTar([{ name: './x', type: 'S', bend: (block) => block.writeUInt8(1, 482) }, kfd]),
      ),
    ),
    noNode,
  ),
  changed(
    'restore',
    'an image of /dev with a pax header at its end',
    dev(gzipSync(rawTar([kfd, { name: 'x', type: 'x' }]))),
    { says: /a header without its entry/ },
  ),
  changed(
    'restore',
    'an image of /dev without the node',
    dev(gzipSync(rawTar([{ ...kfd, minor: 9 }]))),
    noNode,
  ),
  changed(
    'restore',
    'an image of /dev with the node as a block device',
    dev(gzipSync(rawTar([{ ...kfd, type: '4' }]))),
    noNode,
  ),
  changed(
    'restore',
    'an image of /dev of 200 MiB of zeros',
    dev(gzipSync(Buffer.alloc(mib(200)), { level: 1 })),
    noNode,
  ),
  changed(
    'restore',
    'an image of /dev of 15 MiB',
    dev(gzipSync(rawTar([kfd, { name: './x', data: Buffer.alloc(mib(15)) }]), { level: 1 })),
    { says: /becomes 511:0/, status: 0, podman: true },
  ),
  changed(
    'restore',
    'an image of /dev with 100,000 entries',
    dev(
      gzipSync(rawTar([kfd, ...Array.from({ length: 100_000 }, (_, i) => ({ name: `./${i}` }))]), {
        level: 1,
      }),
    ),
    noNode,
  ),
  changed('restore', 'no image of /dev', (files) => delete files[deviceImage], noNode),
];

/** Images of tmpfs mounts, each with the same bytes: few in a compressed archive. */
function manyImages(
  name: string,
  count: number,
  entries: readonly RawEntry[],
  says: RegExp,
  rest: Partial<HostileInput> = {},
): HostileInput {
  return {
    name,
    verb: 'restore',
    status: 5,
    ...(rest.status === undefined && { code: 'E_IMAGE_CORRUPT' }),
    says,
    args: async (dir) => {
      const image = gzipSync(
        rawTar([...entries, { name: './noise', data: randomBytes(mib(1) >> 1) }]),
        {
          level: 1,
        },
      );
      const images = Array.from({ length: count }, (_, i) => ({
        name: tmpfs(i + 100),
        data: image,
      }));
      const tar = rawTar([...(await soundEntries()), ...images]);
      return readingArgs('restore', dir, await written(dir, 'job.tar', packed(tar, 'zstd')));
    },
    ...rest,
  };
}

export const documentInputs: readonly HostileInput[] = [
  ...documents,
  ...devices,
  manyImages(
    '60 images of tmpfs mounts with devices',
    60,
    [kfd],
    /more devices than any container/,
  ),
  manyImages('60 images of tmpfs mounts', 60, [], /becomes 511:0/, {
    status: 0,
    podman: true,
    limits: { writtenBytes: 256 << 20 },
  }),
];
