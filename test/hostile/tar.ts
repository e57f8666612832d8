/** Archives whose structure is damaged, or that readers of tar understand in different ways. */

import { paxRecords, type RawEntry, rawTar } from '../unit/raw-tar.js';
import { hostileArchive, type ReadingVerb, type Shape } from './forms.js';
import type { HostileInput } from './suite.js';

const data = Buffer.from('{}');
const x = (...records: string[]): RawEntry => ({
  name: 'x',
  type: 'x',
  data: paxRecords(...records),
});
const global = (...records: string[]): RawEntry => ({ ...x(...records), type: 'g' });
const long = (name: string): RawEntry => ({ name: 'L', type: 'L', data: Buffer.from(`${name}\0`) });
const rawPax = (text: string): RawEntry => ({ name: 'x', type: 'x', data: Buffer.from(text) });
const plain: RawEntry = { name: 'other', data };

/** The sound archive with more entries at its end. */
function more(name: string, says: RegExp, ...entries: readonly RawEntry[]): Shape {
  return { name, says, make: (sound) => [...sound, ...entries] };
}

/** One more entry, whose header is changed. */
function bent(name: string, says: RegExp, bend: (block: Buffer) => void): Shape {
  return more(name, says, { ...plain, bend });
}

/** The bytes of the sound archive, changed. */
function bytes(name: string, says: RegExp, change: (tar: Buffer) => Buffer): Shape {
  return { name, says, make: (sound) => change(rawTar(sound)) };
}

const withContents = /a link, folder or device with contents/;
const contradiction = /headers that contradict each other/;
const cut = /the end is missing|half an end marker/;
const away = /a name that leaves the archive/;
const number = /not octal|too large/;

const sizes: Shape[] = [0x81, 0x90, 0xbf, 0xc0, 0xfe, 0xff].map((first) =>
  bent(`a size in base 256 that begins with ${first.toString(16)}`, number, (block) => {
    block.fill(0, 124, 136).writeUInt8(first, 124);
  }),
);

const headers: Shape[] = [
  bent('a size of 2^53', number, (block) => {
    block.fill(0, 124, 136).writeUInt8(0x80, 124);
    block.writeBigUInt64BE(2n ** 53n, 128);
  }),
  bent('a size beyond the file', /the end is missing/, (block) => block.write('77777777777', 124)),
  bent('a size beyond every limit', /beyond the limits|the end is missing/, (block) => {
    block.fill(0, 124, 136).writeUInt8(0x80, 124);
    block.writeBigUInt64BE(2n ** 51n, 128);
  }),
  bent('a size of letters', number, (block) => block.write('zzzzzzzzzzz', 124)),
  bent('a negative size', number, (block) => block.write('-0000000001', 124)),
  bent('a size with a tab', number, (block) => block.write('\t0000000002', 124)),
  bent('a size with digits behind a zero byte', number, (block) =>
    block.write('2\x000000000', 124),
  ),
  bent('no magic', /not a ustar header/, (block) => block.fill(0, 257, 265)),
  bent("star's format", /a header of star/, (block) => block.write('tar\0', 508)),
  bent("text in place of GNU's times", number, (block) => {
    block.write('ustar  \0', 257);
    block.write('checkpoint', 345);
  }),
  ...['7', 'S', 'D', 'M', 'V', 'N', 'X', 'A', 'a', '8', ' ', '\x01'].map((type) =>
    more(`an entry of type ${JSON.stringify(type)}`, /an entry of type/, { ...plain, type }),
  ),
];

const contents: Shape[] = [
  ...Object.entries({
    'hard link': '1',
    'symbolic link': '2',
    device: '3',
    folder: '5',
    FIFO: '6',
  }).flatMap(([what, type]) => [
    more(`a ${what} that hides the entries behind it`, withContents, {
      name: 'hide',
      type,
      data: rawTar([plain]),
    }),
    more(`a ${what} with a size in pax`, withContents, x('size=512'), { name: 'hide', type }),
  ]),
  {
    name: 'a link that hides the manifest',
    says: withContents,
    make: (sound) => {
      const at = sound.findIndex(({ name }) => name.endsWith('.json'));
      const hidden = rawTar(sound.slice(at)).subarray(0, -1024);
      return [...sound.slice(0, at), { name: 'notes', type: '1', data: hidden }];
    },
  },
];

const names: Shape[] = [
  more('a name in pax and in a GNU header', contradiction, x('path=other'), long('else'), plain),
  more('a name in a GNU header and in pax', contradiction, long('else'), x('path=other'), plain),
  more('two GNU names', contradiction, long('a'), long('b'), plain),
  more('two pax headers', contradiction, x('path=checkpoint/new.img'), x('mtime=1'), plain),
  more(
    'a global header between pax and its entry',
    contradiction,
    x('path=b'),
    global('comment=c'),
    plain,
  ),
  more('a global header with a name', /a global header with/, global('path=checkpoint/x'), plain),
  more('a global header with a size', /a global header with/, global('size=512'), plain),
  more('a pax name with a zero byte', /a name with a zero byte/, x('path=a\0b'), plain),
  more('a file with the name of a folder', /name of a folder/, { name: 'folder/', data }),
  more('an old file with the name of a folder', /name of a folder/, {
    name: 'f/',
    type: '\0',
    data,
  }),
  more('an absolute name', away, { name: '/checkpoint/kfd-manifest.json', data }),
  more('an absolute name in pax', away, x('path=/etc/passwd'), plain),
  more('a name with ".."', away, { name: 'a/../checkpoint/kfd-manifest.json', data }),
  more('a GNU name with ".."', away, long('../outside'), plain),
  more('a name of 2000 characters', away, x(`path=${'n'.repeat(2000)}`), plain),
  more('a folder with ".."', away, { name: '../..', type: '5' }),
  more('no name at all', away, { name: '', data }),
  more('a link instead of the archive itself', /name of the archive itself/, {
    name: './',
    type: '2',
  }),
  more('a name in a hundred folders', /more folders/, x(`path=${'d/'.repeat(100)}f`), plain),
];

const extensions: Shape[] = [
  more('a pax size that is no number', /no number/, x('size=1e3'), plain),
  more('a pax size with a sign', /no number/, x('size=-1'), plain),
  more('a pax size of 20 digits', /no number/, x('size=99999999999999999999'), plain),
  more('a sparse file in pax', /a sparse file/, x('GNU.sparse.realsize=1099511627776'), plain),
  more(
    'a sparse map in pax',
    /a sparse file/,
    x('GNU.sparse.major=1', 'GNU.sparse.minor=0'),
    plain,
  ),
  more('a pax record that is cut', /a pax record is cut/, rawPax('99 path=a\n'), plain),
  more('a pax record without length', /a pax record is cut/, rawPax('path=a\n'), plain),
  more('a pax record without "="', /without "="/, rawPax('6 abc\n'), plain),
  more(
    'a pax header of 2 MiB',
    /a header is too large/,
    { name: 'x', type: 'x', data: Buffer.alloc(2 << 20) },
    plain,
  ),
  more(
    'a GNU name of 2 MiB',
    /a header is too large/,
    { name: 'L', type: 'L', data: Buffer.alloc(2 << 20) },
    plain,
  ),
  more(
    'a pax header of 8 EiB',
    number,
    { name: 'x', type: 'x', bend: (block) => block.fill(0xff, 124, 136) },
    plain,
  ),
  more('a pax header at the end', /a header without its entry/, x('path=b')),
];

const ends: Shape[] = [
  bytes('no end marker', cut, (tar) => tar.subarray(0, -1024)),
  bytes('half an end marker', cut, (tar) => tar.subarray(0, -512)),
  bytes('an end marker that is none', cut, (tar) => Buffer.from(tar).fill(7, tar.length - 512)),
  bytes('an end in the middle of contents', cut, (tar) => tar.subarray(0, 2000)),
  bytes('a second archive behind the end', /something behind its end/, (tar) =>
    Buffer.concat([tar, rawTar([{ name: 'checkpoint/kfd-manifest.json', data }])]),
  ),
  bytes('text behind the end', /something behind its end/, (tar) => Buffer.concat([tar, data])),
  bytes('2 MiB of zeros behind the end', /something behind its end/, (tar) =>
    Buffer.concat([tar, Buffer.alloc(2 << 20)]),
  ),
  bytes('a wrong checksum', /wrong header checksum/, (tar) => {
    const copy = Buffer.from(tar);
    copy[600] = (copy[600] ?? 0) ^ 1;
    copy[512 * 2 + 3] = (copy[512 * 2 + 3] ?? 0) ^ 1;
    return copy;
  }),
  bytes('only an end marker', /not a tar archive|no CRIU/, () => Buffer.alloc(10_240)),
  bytes('nothing', /not a tar archive|no CRIU|the end is missing/, () => Buffer.alloc(0)),
];

const twice = /is there twice/;
const replaced: Shape[] = [
  more('the manifest twice', twice, { name: 'checkpoint/kfd-manifest.json', data }),
  more('the manifest twice, spelt differently', twice, {
    name: './checkpoint//./kfd-manifest.json',
    data,
  }),
  more('a symbolic link over the manifest', twice, {
    name: 'checkpoint/kfd-manifest.json',
    type: '2',
  }),
  more('a hard link over the manifest', twice, { name: 'checkpoint/kfd-manifest.json', type: '1' }),
  more('a folder over the manifest', twice, { name: 'checkpoint/kfd-manifest.json/', type: '5' }),
  more('a device over a state file', twice, { name: 'checkpoint/kfd-state-0.img', type: '3' }),
  more('a FIFO over the spec', twice, { name: 'spec.dump', type: '6' }),
  more('a link over the image folder', /twice|takes the place of a folder/, {
    name: 'checkpoint',
    type: '2',
  }),
  more('a file over the image folder', /twice|takes the place of a folder/, {
    name: 'checkpoint',
    data,
  }),
  more('a file below a file', /lies below a file or link/, { name: 'spec.dump/x', data }),
  more(
    'a file through a link to the image folder',
    /lies below a file or link/,
    { name: 'way', type: '2' },
    { name: 'way/kfd-manifest.json', data },
  ),
];

const many: Shape[] = [
  {
    name: '70,000 entries',
    says: /more entries than any/,
    make: (sound) => [...sound, ...Array.from({ length: 70_000 }, (_, i) => ({ name: `f${i}` }))],
  },
  {
    name: '70,000 links',
    says: /more entries than any/,
    make: (sound) => [
      ...sound,
      ...Array.from({ length: 70_000 }, (_, i) => ({ name: `l${i}`, type: '2' })),
    ],
  },
];

/** Every shape plain and in gzip, for one verb after the other, and every third in zstd. */
const verbs: readonly ReadingVerb[] = [
  'verify',
  'check',
  'inspect',
  'restore',
  'flatten',
  'checkpoint',
];
const shapes = [...sizes, ...headers, ...contents, ...names, ...extensions, ...ends, ...replaced];

export const tar: readonly HostileInput[] = [
  ...shapes.flatMap((shape, i): HostileInput[] => {
    const verb = (step: number) => verbs[(i + step) % verbs.length] ?? 'verify';
    return [
      hostileArchive(shape, 'plain', verb(0)),
      hostileArchive(shape, 'gzip', verb(1)),
      ...(i % 4 === 0 ? [hostileArchive(shape, 'zstd', verb(2))] : []),
    ];
  }),
  ...many.map((shape) => hostileArchive(shape, 'zstd', 'check')),
];
