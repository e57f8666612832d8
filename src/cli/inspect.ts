/** `kfd-checkpoint inspect`: shows what a checkpoint holds, without unpacking it. */

import { Argument, Command } from 'commander';
import type { RenderStateFacts } from '../addon/images.js';
import { unsealed } from '../archive/completeness.js';
import { collectState, readContents } from '../archive/contents.js';
import { imagePrefix } from '../archive/names.js';
import { KfdError } from '../errors.js';
import { isStateOf, type KfdObjects, kfdObjectsOf } from '../gpu/kfd-objects.js';
import { renderStatePattern, statePattern } from '../manifest/names.js';
import { manifestLimits } from '../manifest/schema.js';
import type { CommandContext } from './context.js';
import { formatOption, json, tree } from './format.js';
import { type NamedCheckpoint, withCheckpoint } from './image-reference.js';
import { inspectReport } from './inspect-report.js';
import { inspectTable, inspectTree } from './inspect-text.js';

type Format = 'table' | 'tree' | 'json';

/** GEM handles in a report. Files beyond are shown as unreadable: a hostile archive would fill the memory. */
const maxHandles = 1 << 18;

export const checkpointArgument = () =>
  new Argument('<checkpoint>', 'archive, podman bundle, image directory or checkpoint image');

export function inspectCommand(context: CommandContext): Command {
  return new Command('inspect')
    .addArgument(checkpointArgument())
    .addOption(formatOption('table', 'tree', 'json'))
    .action((name: string, { format }: { format: Format }) =>
      withCheckpoint(name, context, (found) => inspect(found, name, format, context)),
    );
}

/** `name`: what the user has called it. */
async function inspect(
  { path, layers, containerd }: NamedCheckpoint,
  name: string,
  format: Format,
  { signal, native, out }: CommandContext,
): Promise<void> {
  const objects = new Map<string, KfdObjects>();
  const held = new Map<string, RenderStateFacts>();
  let handles = 0;
  const { zstdDecoder } = native;
  const walk = { zstdDecoder, layers, containerd: containerd?.documents, signal };
  const contents = await readContents(path, walk, async (entry, content) => {
    const file = entry.name.startsWith(imagePrefix) ? entry.name.slice(imagePrefix.length) : '';
    const { size } = entry;
    const read = (isSound: (head: Buffer) => boolean) =>
      collectState(entry, content, manifestLimits.stateBytes, isSound);
    if (statePattern.test(file)) {
      const bytes = await read((head) => isStateOf(size, head));
      const known = bytes && kfdObjectsOf(bytes);
      if (known !== undefined) objects.set(file, known);
    } else if (renderStatePattern.test(file)) {
      const verifier = native.verifier();
      const bytes = await read((head) => isReadable(() => verifier.renderStateHead(head, size)));
      const known = bytes && readable(() => verifier.renderStateFacts(bytes));
      handles += known?.handles.length ?? 0;
      if (known !== undefined && handles <= maxHandles) held.set(file, known);
    }
  });
  const report = inspectReport({ ...contents, path: name }, { objects, held });
  switch (format) {
    case 'table':
      out(inspectTable(report));
      break;
    case 'tree':
      out(tree(inspectTree(report)));
      break;
    case 'json':
      out(json(report));
      break;
  }
  if (report.gpu_state === 'unsealed') throw unsealed(name);
}

function isReadable(read: () => void): boolean {
  return readable(() => [read()]) !== undefined;
}

/** The result of `read`; undefined for a damaged file, because "verify" reports the damage. */
function readable<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof KfdError && error.code === 'E_NATIVE') throw error;
    return undefined;
  }
}
