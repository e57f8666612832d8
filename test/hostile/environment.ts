/** Sound inputs in a hostile environment: standard streams, folders, signals. */

import { archiveOf, hostOptions, soundFiles } from './sound.js';
import type { HostileInput } from './suite.js';

const sound = async (dir: string) => [await archiveOf(dir, await soundFiles())];

export const environment: readonly HostileInput[] = [
  { name: 'nothing is wrong', verb: 'inspect', args: sound, status: 0 },
  { name: 'nothing is wrong', verb: 'verify', args: sound, status: 0, says: /kfd-state-0.* ok/ },
  {
    name: 'nothing is wrong',
    verb: 'check',
    args: async (dir) => [...(await hostOptions(dir, 'same')), ...(await sound(dir))],
    status: 0,
    says: /would restore here by: podman/,
  },
  {
    name: 'nothing is wrong',
    verb: 'restore',
    args: async (dir) => [...(await hostOptions(dir, 'moved')), ...(await sound(dir))],
    status: 0,
    podman: true,
    says: /234:0 becomes 511:0/,
  },
  {
    name: 'a file that does not exist',
    verb: 'inspect',
    args: (dir) => [`${dir}/none`],
    status: 4,
    code: 'E_NOT_FOUND',
  },
  {
    name: 'standard output is full',
    verb: 'version',
    args: () => [],
    streams: '>/dev/full',
    status: 1,
    code: 'E_IO',
    says: /ENOSPC/,
  },
  {
    name: 'standard output is closed by its reader',
    verb: 'version',
    args: () => [],
    streams: '> >(:)',
    status: 0,
  },
];
