/** Device nodes in tar files, and moves of their numbers. */

import { cdiNames } from '../../src/archive/cdi-names.js';
import type { DocumentChanges } from '../../src/archive/device-rules.js';
import { decodeTarHeader } from '../../src/archive/tar-header.js';
import type { DeviceMove } from '../../src/gpu/device-numbers.js';
import type { Cdi } from '../../src/runtime/cdi.js';
import { hostWith } from './host-builder.js';
import type { RawEntry } from './raw-tar.js';

export const node = (name: string, major: number, minor: number): RawEntry => ({
  name,
  type: '3',
  major,
  minor,
});
export const move = (
  gpu: number | undefined,
  from: [number, number],
  to: [number, number],
): DeviceMove => ({
  what: gpu === undefined ? '/dev/kfd' : `gpu ${gpu}`,
  from: { major: from[0], minor: from[1] },
  to: { major: to[0], minor: to[1] },
  ...(gpu !== undefined && { gpu, node: from[1] < 128 ? 'card' : 'renderD' }),
});

export const noCdi: Cdi = { devices: new Map(), problems: [] };

/** Changes of documents on a host without CDI. */
export const documentChanges = (
  moves: readonly DeviceMove[],
  annotations: Readonly<Record<string, string>> = {},
  gone: DocumentChanges['gone'] = [],
): DocumentChanges => ({
  moves,
  gone,
  annotations,
  cdi: cdiNames([], noCdi, hostWith()),
});

/** "name major:minor" of every device, and the names of all else. */
export function listed(tar: Buffer): string[] {
  const lines: string[] = [];
  for (let at = 0; ; ) {
    const header = decodeTarHeader(tar.subarray(at, at + 512));
    if (header === undefined) return lines;
    const { name, type, devMajor, devMinor, size } = header;
    lines.push(type === '3' ? `${name} ${devMajor}:${devMinor}` : name);
    at += 512 + Math.ceil(size / 512) * 512;
  }
}
