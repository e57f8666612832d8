/** Archives with everything that readers of tar may take differently, the same for each seed. */

import { gzipSync } from 'node:zlib';
import { checksummed } from '../unit/raw-tar.js';

type Random = (below: number) => number;

/**
 * What an archive is made by. It has few oddities, in most archives one or none: an archive with many is refused for
 * the first, and says nothing about the others.
 */
class Dice {
  readonly random: Random;
  readonly #names: string[];
  #oddities: number;

  constructor(random: Random) {
    this.random = random;
    this.#oddities = this.pick([0, 1, 1, 1, 2, 4]);
    this.#names = [...names];
  }

  pick<T>(items: readonly T[]): T {
    return items[this.random(items.length)] as T;
  }

  /** Whether something is odd here: one time in `times`, while the archive may have oddities. */
  odd(times: number): boolean {
    if (this.#oddities === 0 || this.random(times) > 0) return false;
    this.#oddities -= 1;
    return true;
  }

  /** A name that no entry has had, but for oddities. */
  name(): string {
    if (this.odd(6)) return this.pick(names);
    return (
      this.#names.splice(this.random(this.#names.length), 1)[0] ?? `other/${this.random(9999)}`
    );
  }
}

const names = [
  'checkpoint/kfd-manifest.json',
  'checkpoint/kfd-state-0.img',
  'checkpoint/amdgpu-pages-0-0000.img',
  'checkpoint/render-state-0.img',
  'checkpoint/inventory.img',
  'checkpoint/pages-1.img',
  'spec.dump',
];

/** A name that readers may bring to the same path. */
function nameOf(dice: Dice): string {
  const name = dice.name();
  if (!dice.odd(3)) return dice.random(4) === 0 ? `./${name}` : name;
  return dice.pick([
    name.replace('/', '//'),
    name.replace('/', '/./'),
    `/${name}`,
    `x/../${name}`,
    `${name}/`,
    `${name}\0tail`,
    `./././${name}`,
    `${name} `,
    name.toUpperCase(),
    '',
  ]);
}

/** The field of a size: 12 bytes, in one of the ways of writing a number, or damaged. */
function sizeField(size: number, dice: Dice): Buffer {
  const octal = size.toString(8);
  const field = Buffer.alloc(12);
  const usual = octal.padStart(11, '0');
  if (!dice.odd(5)) {
    field.write(usual);
    return field;
  }
  const form = dice.random(16);
  if (form === 0) field.fill(0xff).writeInt32BE(-size, 8);
  else if (form === 1) field.fill(0, 0, 8).writeUInt32BE(size, 8);
  else if (form <= 4) {
    field[0] = dice.pick([0x80, 0x80, 0x81, 0xc0]);
    field.writeUInt32BE(size, 8);
  } else {
    const forms = [
      octal.padStart(11, ' '),
      `${octal.padStart(10, '0')} `,
      octal.padStart(12, '0'),
      octal,
      `${octal}\0${'7'.repeat(5)}`,
      `\0${octal}`,
      `-${octal}`,
      `+${octal}`,
      `${octal}x`,
      ` ${octal} \0`,
      '',
    ];
    field.write(dice.pick(forms), 'latin1');
  }
  return field;
}

interface Block {
  readonly name: string;
  readonly type: string;
  readonly size: Buffer;
  readonly link?: string;
}

function headerOf({ name, type, size, link = '' }: Block, dice: Dice): Buffer {
  const block = Buffer.alloc(512);
  block.write(name, 0, 100);
  for (const at of [100, 108, 116]) block.write('0000644', at);
  size.copy(block, 124);
  block.write('00000000000', 136);
  block.write(type, 156, 'latin1');
  block.write(link, 157, 100);
  const magic = dice.odd(8) ? dice.pick(['', 'ustar\0  ', 'ustar 00', 'USTAR\x0000']) : undefined;
  block.write(magic ?? dice.pick(['ustar\x0000', 'ustar\x0000', 'ustar  \0']), 257, 'latin1');
  if (dice.odd(10)) block.write(dice.pick(['checkpoint', 'x/..', '.', '\0', '0000000000']), 345);
  if (dice.odd(20)) block.write('tar\0', 508);
  return checksummed(block);
}

function paxRecord(key: string, value: string, dice: Dice): string {
  const rest = ` ${key}=${value}\n`;
  let length = Buffer.byteLength(rest) + 1;
  while (String(length).length + Buffer.byteLength(rest) !== length) length += 1;
  if (dice.odd(8)) length += dice.pick([-1, 1, 2, 600]);
  return `${dice.odd(12) ? '0' : ''}${length}${rest}`;
}

const oddKeys = [
  'hdrcharset',
  'GNU.sparse.name',
  'GNU.sparse.major',
  'GNU.sparse.realsize',
  'GNU.sparse.map',
  'SCHILY.realsize',
  'size',
  'path',
  'SIZE',
];

/** Records for an entry with this name and size. */
function paxOf(name: string, size: number, dice: Dice): Buffer {
  const records = ['mtime=1700000000.5', `path=${name}`];
  if (dice.random(2) === 0) records.push(`size=${size}`);
  if (dice.odd(2)) {
    const value = dice.pick([
      String(size),
      '0',
      '512',
      '',
      `${size}x`,
      '-1',
      ` ${size}`,
      'BINARY',
      nameOf(dice),
    ]);
    const record = `${dice.pick(oddKeys)}=${value}`;
    records.splice(dice.random(records.length + 1), 0, record);
  }
  return Buffer.from(
    records
      .map((record) =>
        paxRecord(record.split('=', 1)[0] ?? '', record.slice(record.indexOf('=') + 1), dice),
      )
      .join(''),
  );
}

function contents(dice: Dice, depth: number): Buffer {
  // Contents that look like an entry: who takes another size comes to it.
  if (depth === 0 && dice.random(4) === 0) return member(dice, 1);
  return Buffer.alloc(dice.pick([0, 1, 9, 511, 512, 513, 1024]), 1 + dice.random(255));
}

function whole(header: Buffer, data: Buffer): Buffer {
  return Buffer.concat([header, data, Buffer.alloc(-data.length & 511)]);
}

/** One entry, often with headers of pax or GNU before it. */
function member(dice: Dice, depth = 0): Buffer {
  const data = contents(dice, depth);
  const name = nameOf(dice);
  const parts: Buffer[] = [];
  const extension = (type: string, bytes: Buffer) =>
    parts.push(
      whole(headerOf({ name: 'ext', type, size: sizeField(bytes.length, dice) }, dice), bytes),
    );
  const kind = dice.random(6);
  if (kind === 0) extension('x', paxOf(name, data.length, dice));
  if (kind === 1)
    extension('L', Buffer.from(`${name}${dice.odd(4) ? dice.pick(['', '\0x']) : '\0'}`));
  if (dice.odd(8)) extension('K', Buffer.from(`${name}\0`));
  if (dice.odd(5)) {
    extension(dice.pick(['x', 'g', 'L', 'X', 'A', 'V']), paxOf(nameOf(dice), data.length, dice));
  }
  const type = dice.odd(4) ? dice.pick([...'\x007123456SVMDNAXZ']) : '0';
  const size = dice.odd(6) ? dice.pick([0, 1, 512, data.length + 512]) : data.length;
  // A long name is in the header only as far as it fits.
  const shown = kind < 2 && dice.odd(2) ? nameOf(dice) : name;
  const link = dice.pick(names);
  const header = headerOf({ name: shown, type, size: sizeField(size, dice), link }, dice);
  return Buffer.concat([...parts, whole(header, data)]);
}

const zeros = (blocks: number) => Buffer.alloc(512 * blocks);

/** An archive without compression. */
export function tarFrom(random: Random): Buffer {
  const dice = new Dice(random);
  const size = Buffer.from('00000000002\0');
  const sound = new Dice(() => 0);
  const start = headerOf({ name: 'config.dump', type: '0', size }, sound);
  const parts: Buffer[] = [start, Buffer.from('{}'.padEnd(512, '\0'))];
  for (let count = 1 + random(4); count > 0; count--) {
    parts.push(member(dice));
    if (dice.odd(12)) parts.push(zeros(1 + random(3)));
  }
  parts.push(zeros(dice.odd(8) ? dice.pick([0, 1, 3]) : dice.pick([2, 2, 2, 20])));
  if (dice.odd(8)) parts.push(member(dice), zeros(2));
  const bytes: Buffer = Buffer.concat(parts);
  if (!dice.odd(3)) return bytes;
  // Any byte of any header or content.
  const at = random(bytes.length);
  bytes[at] = random(256);
  const block = at - (at % 512);
  if (random(6) > 0) checksummed(bytes.subarray(block, block + 512)).copy(bytes, block);
  return random(8) === 0 ? bytes.subarray(0, random(bytes.length)) : bytes;
}

/** In one gzip stream, or in several, or with something behind it. */
export function gzipped(tar: Buffer, random: Random): Buffer {
  const at = random(tar.length);
  switch (random(12)) {
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
