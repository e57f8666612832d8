/** References between the pages files of one image, for verify and for the session's pre-flight. */

import { buffers, content, describeFiles, names, type Parts } from '../unit/forged-image.js';
import { pagesFile } from '../unit/forged-pages.js';
import { type Bend, bentDirectory, type Case } from './bent.js';
import { hostOptions } from './sound.js';
import type { HostileInput } from './suite.js';

/** Frame `frame` of a process's file on a GPU. */
const place = (process: number, gpu: number, frame: number) =>
  (BigInt(process) << 48n) | (BigInt(gpu) << 32n) | BigInt(frame);

/** The frame of the second file is in another file. */
function refers(to: bigint, seed = 1): Bend {
  return (parts) => {
    const frames = [{ like: content(seed), sibling: to }];
    put(parts, names.second, pagesFile({ gpu: 1, buffers: [{ id: 2, frames }] }).file);
  };
}

function put(parts: Parts, name: string, file: Buffer): void {
  parts.files.set(name, file);
  describeFiles(parts);
}

const cases: readonly Case[] = [
  [
    'a sibling beyond the other file',
    /refers to frame 99 of .*-0-0000\.img: there is no/,
    refers(place(0, 0, 99)),
  ],
  ['a sibling of frame 4,194,303', /there is no such frame/, refers(place(0, 0, (1 << 22) - 1))],
  ['a sibling of a frame number that none can have', /bad sibling/, refers(place(0, 0, 1 << 22))],
  ['a sibling that is zeros', /is not stored there/, refers(place(0, 0, 2))],
  ['a sibling of another content', /is another content/, refers(place(0, 0, 1))],
  [
    'a sibling of the same place and another content',
    /is another content/,
    refers(place(0, 0, 0), 9),
  ],
  [
    'a sibling in a file that is not there',
    /that file is missing or not sound/,
    refers(place(0, 7, 0)),
  ],
  [
    'a sibling in a process that is not there',
    /that file is missing or not sound/,
    refers(place(65_535, 0, 0)),
  ],
  ['a sibling of itself', /sibling of itself/, refers(place(0, 1, 0))],
  [
    'siblings of each other',
    /is not stored there/,
    (parts) => {
      const [first, ...others] = buffers[0] ?? [];
      const frames = [
        { like: content(1), sibling: place(0, 1, 0) },
        ...(first?.frames.slice(1) ?? []),
      ];
      put(parts, names.first, pagesFile({ buffers: [{ id: 0, frames }, ...others] }).file);
      refers(place(0, 0, 0))(parts);
    },
  ],
];

export const siblings: readonly HostileInput[] = [
  {
    name: 'a sibling that is sound',
    verb: 'verify',
    args: (dir) => image(dir, refers(place(0, 0, 0))),
    status: 0,
  },
  ...cases.flatMap(([name, says, bend]): HostileInput[] => [
    {
      name,
      verb: 'verify',
      args: (dir) => image(dir, bend),
      status: 5,
      code: 'E_IMAGE_CORRUPT',
      says,
    },
    {
      name,
      verb: 'preflight',
      program: 'test/hostile/programs/preflight.js',
      args: async (dir) => [...(await image(dir, bend)), (await hostOptions(dir, 'same'))[1] ?? ''],
      status: 5,
      code: 'E_IMAGE_CORRUPT',
      says,
    },
  ]),
];

async function image(dir: string, bend: Bend): Promise<string[]> {
  return [await bentDirectory(dir, bend)];
}
