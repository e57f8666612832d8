/** docs/kernels.md as the table says. Run as a program it prints the page: that is how the page is made. */

import { fileURLToPath } from 'node:url';
import {
  type GpuCondition,
  type KernelRow,
  kernelTable,
  type Releases,
  readKernels,
} from '../../src/gpu/kernel-table.js';
import { gfxName } from '../../src/gpu/properties.js';

export const command = 'node dist/test/unit/kernels-page.js > docs/kernels.md';

/** The whole page. */
export function kernelsPage(): string {
  return `# Kernels

This page is for operators who want to know what a kernel can bring back. It is made from
\`src/gpu/kernel-table.ts\`, the data that the product uses:

\`\`\`
${command}
\`\`\`

\`kfd-checkpoint check\` shows the rows about the GPUs of a host. \`kfd-checkpoint inspect\` shows those about the
queues of a checkpoint. Nothing here was seen on a physical GPU: the rows come from the drivers' sources, and some of
them from simulated hardware ([its README](../test/lab/driver/README.md)).

In the JSON of \`check\`, the finding \`gpu N queues\` has the ids of the rows in \`rows\`. The JSON of \`inspect\` has
\`kernel\`, and \`lost_queues\` for each process.

## Refused at the checkpoint

A kernel saves these queues without an error, and cannot bring them back. A restore would fail, or worse, when the
container is gone.

${tableOf('refused')}

"Before" and "after" say whether the reason is known before the pause. After the pause all rows are applied again, to
the queues that KFD has saved. What was saved decides where it can, because distributions change drivers within a
release. Also refused are queues on an unknown GPU, and KFD state in an unknown layout.

A row with a probe does not hold on a kernel whose RESTORE takes such queues. A child process asks the kernel, without
effect on others: \`native/core/kfd/queue_probe.h\` says how. A kernel with that mend needs no new release of
kfd-checkpoint.

## Restored in the same place only

${tableOf('placed')}

## Kernels that were read

${readKernels.join(', ')}.

Releases between two of one series are taken as equal to them. Where the two differ, a row holds for all between them.
For any other kernel the rows apply as they stand, and \`check\` warns: nobody has read its driver. Drivers of AMD's
DKMS packages and of RHEL are such kernels too. How such a driver saves queues is seen after the pause.

## Where it was read

Paths are below \`drivers/gpu/drm/amd\`.

${sources()}
`;
}

function tableOf(effect: KernelRow['effect']): string {
  const rows = kernelTable.filter((row) => row.effect === effect);
  const cells = rows.map((row) => [
    `\`${row.id}\``,
    row.kernels.map(releases).join(', '),
    gpus(row.gpus),
    queues(row),
    `${row.why}${row.probed ? '; probed' : ''}`,
    row.instead,
    row.saved === undefined ? 'before' : 'after',
  ]);
  return markdownTable(
    ['row', 'kernels', 'GPUs', 'queues', 'why', 'what to do instead', 'known'],
    cells,
  );
}

function sources(): string {
  const cells = kernelTable.map(({ id, sources: places }) => [
    `\`${id}\``,
    places.map((place) => `\`${place}\``).join('<br>'),
  ]);
  return markdownTable(['row', 'source'], cells);
}

function markdownTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [line(head), `|${head.map(() => '---|').join('')}`, ...rows.map(line)].join('\n');
}

/** In words, for reports too. */
function releases({ from, before }: Releases): string {
  if (from === undefined) return before === undefined ? 'all' : `before ${before}`;
  return before === undefined ? `from ${from} on` : `from ${from} on, before ${before}`;
}

function gpus({ gfx, dies, partition }: GpuCondition): string {
  const parts = [
    ...(gfx === undefined ? [] : [generation(gfx)]),
    ...(dies === undefined ? [] : ['several compute dies (MI300X in SPX, DPX, QPX)']),
    ...(partition === undefined ? [] : ['a partition (MI300X in DPX, QPX, CPX)']),
  ];
  return parts.length === 0 ? 'all' : parts.join(', ');
}

function generation([from, below]: NonNullable<GpuCondition['gfx']>): string {
  const major = (version: number) => gfxName(version).slice(0, -2);
  return below === Number.POSITIVE_INFINITY ? `${major(from)} and later` : major(from);
}

function queues({ queues: kinds, parameter }: KernelRow): string {
  const names = kinds.length === 3 ? 'all' : kinds.join(', ');
  return parameter === undefined ? names : `${names}, with amdgpu.${parameter.join('=')}`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.stdout.write(kernelsPage());
