/**
 * The checkpointed container, from the container engine's files. They are not our documents: unknown members are
 * accepted.
 */

import * as v from 'valibot';

export interface ContainerFacts {
  readonly id: string | undefined;
  readonly name: string | undefined;
  readonly image: string | undefined;
  /** OCI runtime: "crun", "runc". */
  readonly runtime: string | undefined;
  readonly engine: 'Podman' | 'CRI-O' | 'containerd' | undefined;
  /** RFC 3339. */
  readonly created: string | undefined;
  readonly checkpointed: string | undefined;
  readonly annotations: Readonly<Record<string, string>>;
  /** Mounts from the host, without the ones that podman creates for each restore. */
  readonly hostFolders: readonly HostFolder[];
}

export interface HostFolder {
  /** Path in the container. */
  readonly destination: string;
  /** Absolute path on the host. */
  readonly source: string;
}

const text = v.fallback(v.optional(v.string()), undefined);
const configSchema = v.object({
  id: text,
  name: text,
  rootfsImageName: text,
  runtime: text,
  createdTime: text,
  checkpointedTime: text,
});
const mountSchema = v.object({
  destination: v.string(),
  type: v.optional(v.string()),
  source: text,
});
const specSchema = v.object({
  mounts: v.fallback(v.optional(v.array(v.unknown())), undefined),
  annotations: v.fallback(v.optional(v.record(v.string(), v.string())), undefined),
});

/** The container in the texts of config.dump and spec.dump; undefined when neither has information. */
export function containerFacts(
  config: string | undefined,
  spec: string | undefined,
): ContainerFacts | undefined {
  const known = v.safeParse(configSchema, parsed(config));
  const described = v.safeParse(specSchema, parsed(spec));
  if (!known.success && !described.success) return undefined;
  const facts: Partial<v.InferOutput<typeof configSchema>> = known.success ? known.output : {};
  const annotations = (described.success ? described.output.annotations : undefined) ?? {};
  return {
    id: facts.id,
    name: nameInPod(annotations) ?? facts.name,
    image: facts.rootfsImageName,
    runtime: facts.runtime,
    engine: described.success ? engineOf(annotations['io.container.manager']) : undefined,
    created: facts.createdTime,
    checkpointed: facts.checkpointedTime,
    annotations,
    hostFolders: described.success ? hostFoldersOf(described.output.mounts ?? [], facts.id) : [],
  };
}

/**
 * The name that a pod gives its container, for CRI-O: config.dump has one that is made of pod, container and attempt
 * there. checkpointctl shows the same one.
 */
function nameInPod(annotations: Readonly<Record<string, string>>): string | undefined {
  if (annotations['io.container.manager'] !== 'cri-o') return undefined;
  const known = v.safeParse(
    v.object({ name: text }),
    parsed(annotations['io.kubernetes.cri-o.Metadata']),
  );
  return known.success ? known.output.name : undefined;
}

function hostFoldersOf(mounts: readonly unknown[], id: string | undefined): HostFolder[] {
  return mounts.flatMap((mount) => {
    const known = v.safeParse(mountSchema, mount);
    if (!known.success) return [];
    const { destination, type, source } = known.output;
    if (type !== 'bind' || source?.startsWith('/') !== true) return [];
    // Podman's own files of the container (hosts, shm, ...), and named volumes, which the archive holds.
    if (id !== undefined && source.includes(`/${id}/`)) return [];
    return /\/volumes\/[^/]+\/_data$/.test(source) ? [] : [{ destination, source }];
  });
}

function parsed(document: string | undefined): unknown {
  if (document === undefined) return undefined;
  try {
    return JSON.parse(document);
  } catch {
    // The container engine reports damage of its own files. Our files are checked elsewhere.
    return undefined;
  }
}

function engineOf(manager: string | undefined): ContainerFacts['engine'] {
  if (manager === 'libpod') return 'Podman';
  return manager === 'cri-o' ? 'CRI-O' : 'containerd';
}
