/** Archives whose compression is damaged, or makes far more of few bytes than anybody has room for. */

import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { rawTar } from '../unit/raw-tar.js';
import { packed, type ReadingVerb, readingArgs, soundEntries } from './forms.js';
import { written } from './sound.js';
import type { HostileInput } from './suite.js';

const gib = (count: number) => count * 2 ** 30;

/** A zstd frame of these bytes and this many zeros: 4 bytes for each 128 KiB of them. */
function zstdFrame(...parts: readonly (Buffer | number)[]): Buffer {
  return zstdFrameOf(17, parts);
}

/** The same with a window of 2^`windowLog` bytes, without checksum and size. */
function zstdFrameOf(windowLog: number, parts: readonly (Buffer | number)[]): Buffer {
  const most = 1 << 17;
  const block = (type: number, size: number, body: Buffer) => {
    const head = Buffer.alloc(3);
    head.writeUIntLE((size << 3) | (type << 1), 0, 3);
    return Buffer.concat([head, body]);
  };
  const pieces = [Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, (windowLog - 10) << 3])];
  for (const part of parts) {
    if (typeof part !== 'number') pieces.push(block(0, part.length, part));
    else pieces.push(Buffer.alloc(4 * Math.floor(part / most), block(1, most, Buffer.alloc(1))));
  }
  return Buffer.concat([...pieces, Buffer.from([0x01, 0, 0])]);
}

/** The compressed bytes of the sound archive, changed. */
function damaged(
  name: string,
  form: 'gzip' | 'zstd',
  verb: ReadingVerb,
  change: (bytes: Buffer) => Buffer,
  says: RegExp,
): HostileInput {
  return {
    name: `${name}, ${form}`,
    verb,
    status: 5,
    code: 'E_IMAGE_CORRUPT',
    says,
    args: async (dir) => {
      const bytes = change(packed(rawTar(await soundEntries()), form));
      return readingArgs(verb, dir, await written(dir, 'job', bytes));
    },
  };
}

const flipped = (at: number) => (bytes: Buffer) => {
  const copy = Buffer.from(bytes);
  const place = at < 0 ? copy.length + at : at;
  copy[place] = (copy[place] ?? 0) ^ 0x41;
  return copy;
};
const verbs: readonly ReadingVerb[] = [
  'inspect',
  'verify',
  'check',
  'restore',
  'flatten',
  'checkpoint',
];
const verb = (step: number): ReadingVerb => verbs[step % verbs.length] ?? 'inspect';

const cuts = [3, 11, 40, 200, -1, -4, -8, -9].flatMap((at, i) => [
  damaged(`cut at ${at}`, 'gzip', verb(i), (bytes) => bytes.subarray(0, at), /./),
  damaged(`cut at ${at}`, 'zstd', verb(i + 1), (bytes) => bytes.subarray(0, at), /./),
]);

const damages = [
  ...[2, 12, 100, -3, -7].map((at, i) =>
    damaged(`another byte at ${at}`, 'gzip', verb(i), flipped(at), /./),
  ),
  ...[12, 40, 100, -2].map((at, i) =>
    damaged(`another byte at ${at}`, 'zstd', verb(i), flipped(at), /./),
  ),
  damaged('gzip in gzip', 'gzip', 'check', (bytes) => gzipSync(bytes), /./),
  damaged('zstd in gzip', 'zstd', 'verify', (bytes) => gzipSync(bytes), /./),
  damaged('only a header', 'gzip', 'inspect', (bytes) => bytes.subarray(0, 10), /./),
  damaged(
    'a second member of text',
    'gzip',
    'inspect',
    (bytes) => Buffer.concat([bytes, gzipSync('text')]),
    /something behind its end/,
  ),
  damaged(
    'a second frame of text',
    'zstd',
    'verify',
    (bytes) => Buffer.concat([bytes, zstdFrame(Buffer.from('text'))]),
    /something behind its end/,
  ),
  damaged(
    'an unknown frame behind it',
    'zstd',
    'check',
    (bytes) => Buffer.concat([bytes, Buffer.from('text, no frame')]),
    /./,
  ),
];

/** An entry of so many zeros behind the sound ones, in some bytes of zstd. */
function bomb(
  name: string,
  verb: ReadingVerb,
  entry: string,
  size: number,
  rest: Partial<HostileInput>,
): HostileInput {
  return {
    name,
    verb,
    status: 5,
    code: 'E_IMAGE_CORRUPT',
    args: async (dir) => {
      const sound = rawTar((await soundEntries()).filter(({ name }) => name !== entry)).subarray(
        0,
        -1024,
      );
      const head = rawTar([{ name: entry, size }]).subarray(0, 512);
      const bytes = zstdFrame(sound, head, size, Buffer.alloc(1024));
      return readingArgs(verb, dir, await written(dir, 'job.zst', bytes));
    },
    ...rest,
  };
}

const interrupt: Partial<HostileInput> = {
  status: 130,
  code: 'E_CANCELLED',
  during: async ({ pid }) => {
    await sleep(3000);
    process.kill(pid, 'SIGINT');
  },
};

/** The sound archive with a window of this size, which a decoder has to keep. */
function windowed(windowLog: number, rest: Partial<HostileInput>): HostileInput {
  return {
    name: `a window of 2^${windowLog} bytes`,
    verb: 'verify',
    status: 5,
    args: async (dir) => {
      const head = rawTar(await soundEntries()).subarray(0, -1024);
      const large = rawTar([{ name: 'zeros', size: gib(1) }]).subarray(0, 512);
      const bytes = zstdFrameOf(windowLog, [head, large, gib(1), Buffer.alloc(1024)]);
      return readingArgs('verify', dir, await written(dir, 'job.zst', bytes));
    },
    ...rest,
  };
}

const bombs = [
  // The largest window that is decoded takes half of the usual limit by itself.
  windowed(27, { status: 0, limits: { memoryBytes: 320 << 20 } }),
  windowed(31, { code: 'E_IMAGE_CORRUPT', says: /memory|window|Frame/ }),
  bomb('a spec of 64 GiB', 'inspect', 'spec.dump', gib(64), { says: /spec\.dump: larger than/ }),
  bomb('a configuration of 64 GiB', 'check', 'config.dump', gib(64), {
    says: /config\.dump: larger than/,
  }),
  bomb('a manifest of 64 GiB', 'verify', 'checkpoint/kfd-manifest.json', gib(64), {
    says: /larger than/,
  }),
  bomb('an inventory of 64 GiB', 'inspect', 'checkpoint/inventory.img', gib(64), {
    says: /larger than/,
  }),
  bomb('a state of 64 GiB', 'verify', 'checkpoint/kfd-state-0.img', gib(64), {
    says: /larger than/,
  }),
  ...(['inspect', 'verify', 'check', 'restore', 'flatten', 'checkpoint'] as const).map((verb) =>
    bomb('200 GiB of host memory, and SIGINT', verb, 'checkpoint/pages-1.img', gib(200), {
      ...interrupt,
      ...(verb === 'restore' && { limits: { writtenBytes: gib(1) } }),
    }),
  ),
];

export const compression: readonly HostileInput[] = [...cuts, ...damages, ...bombs];
