/**
 * CDI names in the container engine's documents. Podman resolves them at each later start of the container: names of
 * the source host would then bring in GPUs that are others here, or let the start fail. An engine that resolves
 * annotations does the same.
 */

import * as v from 'valibot';
import type { Host } from '../gpu/host.js';
import type { GpuPair } from '../gpu/pair.js';
import type { Cdi } from '../runtime/cdi.js';
import { amdKind, cdiNameOf, foreignCards, gpusOfCdi } from '../runtime/cdi-gpus.js';

/** The member of podman's config.dump. */
export const cdiMember = 'cdiDevices';
export const nameList = v.nullable(v.array(v.string()));
/** Prefix of annotations whose values are names, with commas between them. */
const annotationPrefix = 'cdi.k8s.io/';

/** The names of one container's GPUs on this host. */
export interface CdiNames {
  /** The list with the names of this host. Names of other devices stay. */
  followed(names: readonly string[] | null): readonly string[] | null;
  /** The same for annotations. One whose last name goes, goes too. */
  followedAnnotations(
    annotations: Readonly<Record<string, string>>,
  ): Readonly<Record<string, string>>;
}

/**
 * Names of AMD's kind, and names that lead to GPUs here, become the names of the GPUs of `pairs`. They are dropped
 * where one of these GPUs has no name: podman then gives a later start the nodes of the spec. Names that mean just
 * these GPUs already stay.
 */
export function cdiNames(pairs: readonly GpuPair[], cdi: Cdi, host: Host): CdiNames {
  const gpus = pairs.map(({ present }) => present);
  const found = gpus.map((gpu) => cdiNameOf(gpu, cdi, host));
  const here = found.every((name) => name !== undefined) ? found : [];
  const gpusOf = (name: string) => {
    const device = cdi.devices.get(name);
    return device === undefined ? [] : gpusOfCdi(device, host);
  };
  const isOurs = (name: string) => name.startsWith(`${amdKind}=`) || gpusOf(name).length > 0;
  const isRight = (names: readonly string[]) => {
    const meant = new Set(names.flatMap(gpusOf));
    const devices = names.map((name) => cdi.devices.get(name));
    return (
      meant.size === gpus.length &&
      gpus.every((gpu) => meant.has(gpu)) &&
      devices.every((device) => device && foreignCards(device, gpus, host).length === 0)
    );
  };
  const followed = (names: readonly string[]) => {
    const ours = names.filter(isOurs);
    if (gpus.length === 0 || ours.length === 0 || isRight(ours)) return names;
    return [...names.filter((name) => !isOurs(name)), ...here];
  };
  return {
    followed: (names) => names && followed(names),
    followedAnnotations: (annotations) =>
      gpus.length === 0 ? annotations : changedAnnotations(annotations, isOurs, isRight, here),
  };
}

function changedAnnotations(
  annotations: Readonly<Record<string, string>>,
  isOurs: (name: string) => boolean,
  isRight: (names: readonly string[]) => boolean,
  here: readonly string[],
): Readonly<Record<string, string>> {
  const namesIn = (key: string, value: string) =>
    key.startsWith(annotationPrefix) ? value.split(',').map((name) => name.trim()) : [];
  const entries = Object.entries(annotations);
  const ours = entries.flatMap(([key, value]) => namesIn(key, value).filter(isOurs));
  if (ours.length === 0 || isRight(ours)) return annotations;
  // All names of the container's GPUs go into the first annotation that had one.
  let added = here;
  return Object.fromEntries(
    entries.flatMap(([key, value]) => {
      const names = namesIn(key, value);
      if (!names.some(isOurs)) return [[key, value]];
      const kept = [...names.filter((name) => !isOurs(name)), ...added];
      added = [];
      return kept.length === 0 ? [] : [[key, kept.join(',')]];
    }),
  );
}

const withNames = v.object({ [cdiMember]: v.fallback(v.optional(nameList), undefined) });
const withAnnotations = v.object({
  annotations: v.fallback(v.optional(v.record(v.string(), v.string())), undefined),
});

/** Whether the documents, texts of config.dump and spec.dump, have names that would change. */
export function hasOtherNames(
  names: CdiNames,
  { config, spec }: { readonly config?: string | undefined; readonly spec?: string | undefined },
): boolean {
  const list = v.safeParse(withNames, parsed(config));
  const known = list.success ? (list.output[cdiMember] ?? null) : null;
  const described = v.safeParse(withAnnotations, parsed(spec));
  const annotations = (described.success ? described.output.annotations : undefined) ?? {};
  return names.followed(known) !== known || names.followedAnnotations(annotations) !== annotations;
}

function parsed(document: string | undefined): unknown {
  try {
    return document === undefined ? undefined : JSON.parse(document);
  } catch {
    return undefined; // the rewriting reports it
  }
}
