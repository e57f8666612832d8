/** `kfd-checkpoint annotate`: adds annotations about the GPUs to a checkpoint image. */

import { Argument, Command } from 'commander';
import { readContents } from '../archive/contents.js';
import { gpuAnnotations } from '../archive/image-annotations.js';
import { annotateLayout } from '../archive/oci-annotate.js';
import { KfdError, printable } from '../errors.js';
import { annotateStored } from './annotate-stored.js';
import { refuseContainerd } from './containerd-steps.js';
import type { CommandContext } from './context.js';
import { formatOption, json } from './format.js';
import { imageReference, withCheckpoint } from './image-reference.js';

export function annotateCommand(context: CommandContext): Command {
  return new Command('annotate')
    .addArgument(new Argument('<image>', 'containers-storage:NAME or oci:DIR[:TAG]'))
    .addOption(formatOption('text', 'json'))
    .action(async (image: string, { format }: { format: 'text' | 'json' }) => {
      const add = adderFor(image, context);
      const { changed, annotations } = await add(() => wantedFor(image, context));
      context.out(
        format === 'json'
          ? json({ schema_version: 1, image, changed, annotations })
          : Object.entries(annotations)
              .map(([key, value]) => `${key}: ${printable(value)}\n`)
              .join(''),
      );
    });
}

type Annotations = Readonly<Record<string, string>>;
type Add = (
  wantedOf: () => Promise<Annotations>,
) => Promise<{ readonly changed: boolean; readonly annotations: Annotations }>;

/** What adds annotations to the image, and returns them and whether it had to. Throws E_USAGE. */
function adderFor(image: string, context: CommandContext): Add {
  const reference = imageReference(image);
  switch (reference?.transport) {
    case 'containers-storage':
      return async (wantedOf) => {
        const annotations = await wantedOf();
        const changed = await annotateStored(reference.image, annotations, context.run);
        return { changed, annotations };
      };
    case 'oci':
      return (wantedOf) => annotateLayout(reference.path, reference.tag, wantedOf, image, context);
    default:
      throw new KfdError('E_USAGE', `${image}: cannot be annotated`, {
        hint: 'name containers-storage:NAME or oci:DIR; unpack an oci-archive to a folder first',
      });
  }
}

/** Throws as `withCheckpoint` and `readContents`, and E_IMAGE_MISSING without GPU state. */
async function wantedFor(image: string, context: CommandContext) {
  const { native, signal } = context;
  return withCheckpoint(
    image,
    context,
    async ({ path, layers }) => {
      const walk = { zstdDecoder: native.zstdDecoder, layers, signal };
      const { manifest } = await readContents(path, walk);
      if (manifest !== undefined) return gpuAnnotations(manifest);
      throw new KfdError('E_IMAGE_MISSING', `${image}: has no GPU contents`, {
        hint: 'name the image of a container that used a GPU',
      });
    },
    refuseContainerd(image, 'cannot be annotated'),
  );
}
