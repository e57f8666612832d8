/** zstd with its own program: Node.js 20 has none. */

import { execFileSync } from 'node:child_process';

/** In one frame or in several, with a frame to skip, cut, or with something behind it. */
export function zstdCompressed(tar: Buffer, random: (below: number) => number): Buffer {
  const frame = (bytes: Buffer) => execFileSync('zstd', ['-1', '-qc'], { input: bytes });
  const at = random(tar.length);
  switch (random(12)) {
    case 0:
      return Buffer.concat([frame(tar.subarray(0, at)), frame(tar.subarray(at))]);
    case 1:
      return Buffer.concat([
        frame(tar),
        Buffer.from('502a4d180300000061626300', 'hex').subarray(0, 11),
      ]);
    case 2:
      return Buffer.concat([frame(tar), Buffer.alloc(100)]);
    case 3:
      return frame(tar).subarray(0, -1 - random(8));
    default:
      return frame(tar);
  }
}
