/**
 * GPUs that the command line names, for a restore: `--gpus` and `--gpu-map`. Beside the names of `gpuSelector` it takes
 * CDI names: on the left side of a map those of the source host, else those of this host.
 */

import * as v from 'valibot';
import { KfdError } from '../errors.js';
import { archiveMinor } from '../gpu/archive-minor.js';
import type { Choices } from '../gpu/compare.js';
import { type GpuMap, isNamed, isSelector, parseGpuMap } from '../gpu/gpu-map.js';
import type { Host, HostGpu } from '../gpu/host.js';
import type { Manifest } from '../manifest/schema.js';
import { annotationPrefix } from '../runtime/annotate.js';
import { type Cdi, isCdiName } from '../runtime/cdi.js';
import { gpusOfName } from '../runtime/cdi-gpus.js';

/** Names as they were given. */
export interface NamedGpus {
  readonly map?: GpuMap;
  readonly only?: readonly string[];
}

const isName = (word: string) => isSelector(word) || isCdiName(word);

/** Values of the options. Throws E_USAGE. */
export function namedGpus({
  gpuMap,
  gpus,
}: {
  readonly gpuMap: string | undefined;
  readonly gpus: string | undefined;
}): NamedGpus {
  if (gpuMap !== undefined && gpus !== undefined) {
    throw new KfdError('E_USAGE', '--gpu-map and --gpus exclude each other', {
      hint: 'a map names the GPUs of this host, too',
    });
  }
  const only = gpus?.split(',');
  if (only?.every(isName) === false) {
    throw new KfdError('E_USAGE', `--gpus: "${gpus}" is not NAME[,NAME...]`, {
      hint: 'name GPUs of this host by amd.com/gpu=0, renderD128, PCI address or KFD id: see "kfd-checkpoint check"',
    });
  }
  return {
    ...(gpuMap !== undefined && { map: parseGpuMap(gpuMap, isName) }),
    ...(only !== undefined && { only }),
  };
}

/** Where names are looked up. */
export interface Places {
  readonly cdi: Cdi;
  readonly host: Host;
  readonly manifest: Manifest;
  /** Of the checkpointed container. */
  readonly annotations: Readonly<Record<string, string>>;
}

/** The choices that the names mean on this host. Throws E_NO_GPU for a name of no GPU, E_USAGE for one of several. */
export function choicesOf({ map, only }: NamedGpus, places: Places): Choices {
  return {
    ...(map !== undefined && { gpu_map: selectors(map, places) }),
    ...(only !== undefined && {
      gpu_map: {}, // that of the configuration may name other GPUs
      only: {
        minors: new Set(only.flatMap((name) => gpusHere(name, places)).map(renderMinor)),
        by: '--gpus',
      },
    }),
  };
}

const renderMinor = ({ record }: HostGpu) => record.render_minor;

function gpusHere(name: string, { cdi, host }: Places): readonly HostGpu[] {
  if (isCdiName(name)) return gpusOfName(name, cdi, host, '--gpus');
  const found = host.gpus.filter(({ record }) => isNamed(record, name));
  if (found.length > 0) return found;
  throw new KfdError('E_NO_GPU', `--gpus: this host has no ${name}`, {
    hint: 'see "kfd-checkpoint check" for the GPUs of this host',
  });
}

/** The map without CDI names. */
function selectors(map: GpuMap, places: Places): GpuMap {
  const { cdi, host } = places;
  const pairs = Object.entries(map).map(([from, to]) => {
    if (!isCdiName(to)) return [sourceSelector(from, places), to];
    const [gpu, ...others] = gpusOfName(to, cdi, host, '--gpu-map');
    if (gpu === undefined || others.length > 0) {
      throw new KfdError('E_USAGE', `--gpu-map: ${to} is ${others.length + 1} GPUs`, {
        hint: 'name one GPU on each side',
      });
    }
    return [sourceSelector(from, places), `renderD${renderMinor(gpu)}`];
  });
  return Object.fromEntries(pairs);
}

const described = v.array(
  v.object({ render_minor: v.number(), cdi: v.fallback(v.optional(v.string()), undefined) }),
);

/** The recorded GPU that had this CDI name. The container's annotations have the names since its start. */
function sourceSelector(name: string, { manifest, annotations }: Places): string {
  if (!isCdiName(name)) return name;
  const minors = annotated(annotations[`${annotationPrefix}gpus`])
    .filter(({ cdi }) => cdi === name)
    .map(({ render_minor }) => render_minor);
  const recorded = manifest.gpus.find((gpu) => minors.includes(archiveMinor(manifest, gpu)));
  if (recorded !== undefined) return `renderD${recorded.render_minor}`;
  throw new KfdError('E_USAGE', `--gpu-map: the checkpoint does not say which GPU was ${name}`, {
    hint: 'name it by renderD128, 0000:03:00.0 or its KFD id: see "kfd-checkpoint inspect"',
  });
}

function annotated(text: string | undefined): v.InferOutput<typeof described> {
  try {
    return v.parse(described, JSON.parse(text ?? '[]'));
  } catch {
    return []; // somebody else's, or damaged: then it names no GPU
  }
}
