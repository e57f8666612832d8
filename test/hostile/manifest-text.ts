/** The text of manifests: its syntax, its size, its seal. */

import type { Files } from '../unit/archive-builder.js';
import { sealedText } from '../unit/manifest-sealed.js';
import { bentArchive } from './bent.js';
import type { HostileInput } from './suite.js';

const entry = 'checkpoint/kfd-manifest.json';

type TextCase = readonly [name: string, says: RegExp, change: (text: string) => string | Buffer];

/** The text of the manifest of a sound image is another one. */
function texts(verb: string, cases: readonly TextCase[]): HostileInput[] {
  return cases.map(([name, says, change]) => ({
    name,
    verb,
    args: async (dir) => {
      const files = (all: Files) => {
        all[entry] = change(`${all[entry]}`);
      };
      return [await bentArchive(dir, () => undefined, { files, level: 1 })];
    },
    status: 5,
    code: 'E_IMAGE_CORRUPT',
    says,
  }));
}

/** Puts bytes in place of the letters of the process's name. */
function named(bytes: readonly number[]): (text: string) => Buffer {
  return (text) => {
    const all = Buffer.from(text);
    all.set(bytes, all.indexOf('"worker"') + 1);
    return all;
  };
}

const list = (member: string, item: string, count: number): string =>
  `{"schema_version":1,"${member}":[${`${item},`.repeat(count)}${item}]}`;

const syntax: readonly TextCase[] = [
  ['is empty', /not complete JSON/, () => ''],
  ['is a zero byte', /not complete JSON/, () => '\0'],
  ['is null', /not a JSON object/, () => 'null'],
  ['is a list', /not a JSON object/, () => '[]'],
  ['is a string', /not a JSON object/, () => '"x"'],
  ['is true', /not a JSON object/, () => 'true'],
  ['is an empty object', /schema_version: /, () => '{}'],
  ['is cut in the middle', /not complete JSON/, (text) => text.slice(0, text.length / 2)],
  ['lacks its last brace', /not complete JSON/, (text) => text.slice(0, -1)],
  ['has text behind its end', /not complete JSON/, (text) => `${text}x`],
  ['is there twice in its file', /not complete JSON/, (text) => text + text],
  ['begins with a byte order mark', /not complete JSON/, (text) => `\ufeff${text}`],
  ['is UTF-16', /not (UTF-8|complete JSON)/, (text) => Buffer.from(text, 'utf16le')],
  ['has a byte that is no UTF-8', /not UTF-8/, named([0xff])],
  ['has an overlong slash', /not UTF-8/, named([0xc0, 0xaf])],
  ['has half a surrogate pair in UTF-8', /not UTF-8/, named([0xed, 0xa0, 0x80])],
  ['has a cut UTF-8 sequence', /not UTF-8/, named([0xe2, 0x82])],
  ['has a comment', /not complete JSON/, (text) => text.replace('{', '{/* */')],
  ['has a trailing comma', /not complete JSON/, (text) => text.replace(/\}$/, ',}')],
  ['has a name without quotes', /not complete JSON/, (text) => text.replace('"tool"', 'tool')],
  [
    'has a number with a leading zero',
    /not complete JSON/,
    (text) => text.replace(':4711', ':04711'),
  ],
  ['has a hexadecimal number', /not complete JSON/, (text) => text.replace(':4711', ':0x12')],
  ['has NaN', /not complete JSON/, (text) => text.replace(':4711', ':NaN')],
  ['has a number that is infinite', /processes\.0\.pid/, (text) => text.replace(':4711', ':1e999')],
  [
    'has a line feed in a string',
    /not complete JSON/,
    (text) => text.replace('worker', 'wor\nker'),
  ],
  ['has a member twice', /twice/, (text) => text.replace('{', '{"seal":"0",')],
  ['has a member twice inside', /twice/, (text) => text.replace('"pid":', '"pid":1,"pid":')],
  [
    'has a member twice by an escape',
    /twice/,
    (text) => text.replace('"pid":', '"p\\u0069d":1,"pid":'),
  ],
];

const prototypes = ['__proto__', 'constructor', 'toString', 'valueOf', 'hasOwnProperty'].map(
  (name): TextCase => [
    `has a member ${name}`,
    /unknown member/,
    (text) => text.replace('"pid":', `"${name}":{"comm":"x"},"pid":`),
  ],
);

const sizes: readonly TextCase[] = [
  ['has 1,500,000 empty buffers', /buffers: |and 7 more/, () => list('buffers', '{}', 1_500_000)],
  ['has 499,999 empty buffers', /and 7 more/, () => list('buffers', '{}', 499_998)],
  [
    'has ten million numbers for buffers',
    /more than 8000000 values/,
    () => list('buffers', '1', 10_000_000),
  ],
  [
    'has three million lists',
    /more than 2000000 objects and arrays/,
    () => list('files', '[]', 3_000_000),
  ],
  ['has four million empty strings', /and 7 more/, () => list('files', '""', 4_000_000)],
  ['is four million levels of lists deep', /deeper than 8 levels/, () => '['.repeat(4 << 20)],
  ['is a million levels of objects deep', /deeper than 8 levels/, () => '{"a":'.repeat(1 << 20)],
  ['is nine levels deep', /deeper than 8 levels/, () => `{"x":${'['.repeat(9)}${']'.repeat(9)}}`],
  [
    'has 300,000 names of members',
    /more than 4096 names/,
    () => `{${Array.from({ length: 300_000 }, (_, i) => `"n${i}":0`).join(',')}}`,
  ],
  ['has a name of a million letters', /unknown member/, () => `{"${'n'.repeat(1 << 20)}":0}`],
  [
    'has a process with a name of 16 MiB',
    /processes\.0\.comm/,
    (text) => text.replace('worker', 'w'.repeat(16 << 20)),
  ],
  ['is a string without an end of 16 MiB', /not complete JSON/, () => `"${'x'.repeat(16 << 20)}`],
];

const seals: readonly TextCase[] = [
  ['has no seal', /seal is missing/, (text) => text.replace(/,"seal":"[^"]*"/, '')],
  ['has another seal', /seal does not match/, (text) => text.replace(/"seal":"./, '"seal":"x')],
  [
    'has a number for a seal',
    /seal does not match/,
    (text) => text.replace(/"seal":"[^"]*"/, '"seal":0'),
  ],
  [
    'has the seal in capital letters',
    /seal does not match/,
    (text) => text.replace(/"seal":"[^"]*"/, (seal) => seal.toUpperCase().replace('SEAL', 'seal')),
  ],
  [
    'is of another image than its seal',
    /seal does not match/,
    (text) => text.replace(':4711', ':4712'),
  ],
];

/** Each verb reads the manifest by the same function. */
const otherVerbs = ['verify', 'check', 'restore'].flatMap((verb) =>
  texts(verb, [
    ['has 1,500,000 empty buffers', /buffers: |and 7 more/, () => list('buffers', '{}', 1_500_000)],
    ['has a member twice', /twice/, (text) => text.replace('{', '{"seal":"0",')],
    ['has no state', /not among files/, (text) => sealedText(withoutFiles(text))],
  ]),
);

function withoutFiles(text: string): object {
  const { seal: _, ...document } = JSON.parse(text) as Record<string, unknown>;
  return { ...document, files: [] };
}

export const manifestText: readonly HostileInput[] = [
  ...texts('inspect', [...syntax, ...prototypes, ...sizes, ...seals]),
  ...otherVerbs,
];
