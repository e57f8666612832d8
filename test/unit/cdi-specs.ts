/** CDI specifications as `amd-ctk cdi generate` writes them: one device for each GPU, and "all". */

import type { Cdi, CdiNode } from '../../src/runtime/cdi.js';

/** Minors of the nodes of one GPU. */
export interface SpecifiedGpu {
  readonly card: number;
  readonly render: number;
}

const kfd = (major: number) => ({ path: '/dev/kfd', type: 'c', major, minor: 0, fileMode: 438 });
const dri = (path: string, minor: number) => ({
  path: `/dev/dri/${path}${minor}`,
  type: 'c',
  major: 226,
  minor,
  fileMode: 438,
  gid: 44,
});
const nodesOf = ({ card, render }: SpecifiedGpu) => [dri('card', card), dri('renderD', render)];

/** The text of /etc/cdi/amd.json. */
export function amdJson(gpus: readonly SpecifiedGpu[], kfdMajor = 234): string {
  const device = (name: string, some: readonly SpecifiedGpu[]) => ({
    name,
    containerEdits: { deviceNodes: [kfd(kfdMajor), ...some.flatMap(nodesOf)] },
  });
  return JSON.stringify({
    cdiVersion: '0.6.0',
    kind: 'amd.com/gpu',
    containerEdits: {},
    devices: [...gpus.map((gpu, i) => device(`${i}`, [gpu])), device('all', gpus)],
  });
}

/** The same, as it was read. */
export function amdCdi(gpus: readonly SpecifiedGpu[]): Cdi {
  const { devices } = JSON.parse(amdJson(gpus)) as {
    devices: { name: string; containerEdits: { deviceNodes: CdiNode[] } }[];
  };
  return {
    devices: new Map(
      devices.map(({ name, containerEdits }) => {
        const full = `amd.com/gpu=${name}`;
        return [full, { name: full, file: '/etc/cdi/amd.json', nodes: containerEdits.deviceNodes }];
      }),
    ),
    problems: [],
  };
}
