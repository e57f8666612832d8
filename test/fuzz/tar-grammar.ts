/** Archives with everything that readers of tar may take differently, the same for each seed. */

import { gzipSync } from 'node:zlib';
import { checksummed } from '../unit/raw-tar.js';

type Random = (below: number) => number;

const names = [
  'checkpoint/kfd-manifest.json',
  'checkpoint/kfd-state-0.img',
  'checkpoint/amdgpu-pages-0-0000.img',
  'checkpoint/render-state-0.img',
  'checkpoint/inventory.img',
  'config.dump',
  'spec.dump',
];

function pick<T>(random: Random, items: readonly T[]): T {
  return items[random(items.length)] as T;
}

/** A name that readers may bring to the same path. */
function nameOf(random: Random): string {
  const name = pick(random, names);
  switch (random(12)) {
    case 0:
      return `./${name}`;
    case 1:
      return name.replace('/', '//');
    case 2:
      return name.replace('/', '/./');
    case 3:
      return `/${name}`;
    case 4:
      return `x/../${name}`;
    case 5:
      return `${name}/`;
    case 6:
      return `${name}\0tail`;
    default:
      return name;
  }
}

/** The field of a size: 12 bytes, in one of the ways of writing a number, or damaged. */
function sizeField(size: number, random: Random): Buffer {
  const octal = size.toString(8);
  const field = Buffer.alloc(12);
  switch (random(24)) {
    case 0:
      field.write(octal.padStart(11, ' '));
      return field;
    case 1:
      field.write(`${octal.padStart(10, '0')} `);
      return field;
    case 2:
      field.write(octal.padStart(12, '0'));
      return field;
    case 3:
      field.write(octal);
      return field;
    case 4:
      field.write(`${octal}\0${'7'.repeat(5)}`);
      return field;
    case 5:
      field.write(`\0${octal}`);
      return field;
    case 6:
      field[0] = 0x80;
      field.writeUInt32BE(size, 8);
      return field;
    case 7:
      field.fill(0xff).writeInt32BE(-size, 8);
      return field;
    case 8:
      field[0] = 0x81;
      field.writeUInt32BE(size, 8);
      return field;
    case 9:
      field.write(`-${octal}`);
      return field;
    case 10:
      field.write(`+${octal}`);
      return field;
    case 11:
      field.write(`${octal}x`);
      return field;
    default:
      field.write(octal.padStart(11, '0'));
      return field;
  }
}

interface Block {
  readonly name: string;
  readonly type: string;
  readonly size: Buffer;
  readonly link?: string;
}

function headerOf({ name, type, size, link = '' }: Block, random: Random): Buffer {
  const block = Buffer.alloc(512);
  block.write(name, 0, 100);
  for (const at of [100, 108, 116]) block.write('0000644', at);
  size.copy(block, 124);
  block.write('00000000000', 136);
  block.write(type, 156, 'latin1');
  block.write(link, 157, 100);
  const magic = random(16);
  if (magic > 3) block.write('ustar\x0000', 257, 'latin1');
  else if (magic > 1) block.write('ustar  \0', 257, 'latin1');
  else if (magic === 1) block.write('ustar\x0000', 257, 'latin1');
  if (random(16) === 0) block.write(pick(random, ['checkpoint', 'x/..', '.', '\0']), 345);
  if (magic === 1) block.write('tar\0', 508);
  return checksummed(block);
}

function paxRecord(key: string, value: string, random: Random): string {
  const rest = ` ${key}=${value}\n`;
  let length = Buffer.byteLength(rest) + 1;
  while (String(length).length + Buffer.byteLength(rest) !== length) length += 1;
  if (random(16) === 0) length += random(3) - 1;
  return `${random(16) === 0 ? '0' : ''}${length}${rest}`;
}

const paxKeys = [
  'path',
  'path',
  'size',
  'size',
  'linkpath',
  'comment',
  'hdrcharset',
  'GNU.sparse.name',
  'GNU.sparse.major',
  'GNU.sparse.realsize',
  'GNU.sparse.map',
  'SCHILY.realsize',
  'mtime',
];

function paxOf(random: Random, size: number): Buffer {
  let text = '';
  for (let count = 1 + random(3); count > 0; count--) {
    const key = pick(random, paxKeys);
    const value =
      key === 'path' || key.endsWith('name')
        ? pick(random, [nameOf(random), '', 'other'])
        : pick(random, [String(size), '0', '512', '', `${size}x`, '-1', '1', 'BINARY']);
    text += paxRecord(key, value, random);
  }
  return Buffer.from(text);
}

/** Types with and without contents, and the ones of GNU tar and other programs. */
const types = [...'0000000000\x007123456SVMDNAXZ'];

function contents(random: Random, depth: number): Buffer {
  // Contents that look like an entry: who takes another size comes to it.
  if (depth === 0 && random(4) === 0) return member(random, 1);
  return Buffer.alloc(pick(random, [0, 1, 9, 511, 512, 513, 1024]), 1 + random(255));
}

function whole(header: Buffer, data: Buffer): Buffer {
  return Buffer.concat([header, data, Buffer.alloc(-data.length & 511)]);
}

/** One entry, often with headers of pax or GNU before it. */
function member(random: Random, depth = 0): Buffer {
  const data = contents(random, depth);
  const parts: Buffer[] = [];
  const extension = (type: string, bytes: Buffer) =>
    parts.push(
      whole(headerOf({ name: 'ext', type, size: sizeField(bytes.length, random) }, random), bytes),
    );
  for (let count = random(3); count > 0; count--) {
    switch (random(9)) {
      case 0:
        extension('x', paxOf(random, data.length));
        break;
      case 1:
        extension('g', paxOf(random, data.length));
        break;
      case 2:
        extension('L', Buffer.from(`${nameOf(random)}${pick(random, ['\0', '', '\0x'])}`));
        break;
      case 3:
        extension('K', Buffer.from(`${pick(random, names)}\0`));
        break;
      case 4:
        extension(pick(random, ['X', 'A', 'V']), paxOf(random, data.length));
        break;
      default:
    }
  }
  const type = pick(random, types);
  const size = random(12) === 0 ? pick(random, [0, 1, 512, data.length + 512]) : data.length;
  const link = pick(random, names);
  const header = headerOf(
    { name: nameOf(random), type, size: sizeField(size, random), link },
    random,
  );
  return Buffer.concat([...parts, whole(header, data)]);
}

const zeros = (blocks: number) => Buffer.alloc(512 * blocks);

/** An archive without compression. */
export function tarFrom(random: Random): Buffer {
  const start = Buffer.concat([
    checksummed(
      headerOf({ name: 'config.dump', type: '0', size: Buffer.from('00000000002\0') }, () => 9),
    ),
    Buffer.from('{}'.padEnd(512, '\0')),
  ]);
  const parts: Buffer[] = [start];
  for (let count = 1 + random(4); count > 0; count--) {
    parts.push(member(random));
    if (random(16) === 0) parts.push(zeros(1 + random(3)));
  }
  if (random(12) > 0) parts.push(zeros(pick(random, [2, 2, 2, 2, 1, 3, 20])));
  if (random(8) === 0) parts.push(member(random), zeros(2));
  const bytes: Buffer = Buffer.concat(parts);
  if (random(3) > 0) return bytes;
  // Any byte of any header or content.
  const at = random(bytes.length);
  bytes[at] = random(256);
  const block = at - (at % 512);
  if (random(4) > 0) checksummed(bytes.subarray(block, block + 512)).copy(bytes, block);
  return random(8) === 0 ? bytes.subarray(0, random(bytes.length)) : bytes;
}

/** In one gzip stream, or in several, or with something behind it. */
export function gzipped(tar: Buffer, random: Random): Buffer {
  const at = random(tar.length);
  switch (random(6)) {
    case 0:
      return Buffer.concat([gzipSync(tar.subarray(0, at)), gzipSync(tar.subarray(at))]);
    case 1:
      return Buffer.concat([gzipSync(tar), Buffer.from('behind it')]);
    case 2:
      return Buffer.concat([gzipSync(tar), Buffer.alloc(100)]);
    case 3:
      return gzipSync(tar).subarray(0, -1 - random(12));
    default:
      return gzipSync(tar);
  }
}
