/** A checkpoint whose device numbers can be rewritten, and the codecs for it. */

import { gzipSync } from 'node:zlib';
import { ProgramFilter } from '../../src/os/filter.js';
import { checkpointOfHere, type Files, zstdProgram } from './archive-builder.js';
import { rawTar } from './raw-tar.js';

export const image = 'checkpoint/tmpfs-dev-38.tar.gz.img';

export const options = {
  zstdDecoder: zstdProgram,
  zstdEncoder: () => new ProgramFilter('zstd', ['-1', '-q', '-c']),
};

export function sample(): Files {
  const kfd = { name: './kfd', type: '3', major: 234, minor: 0 };
  return {
    ...checkpointOfHere(),
    [image]: gzipSync(rawTar([kfd])),
    'spec.dump': '{"linux":{"devices":[{"path":"/dev/kfd","type":"c","major":234,"minor":0}]}}',
  };
}
