/** What the target says of itself. Reads, and changes nothing. */

import { access, stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { isMissing } from '../../errors.js';
import type { Host } from '../../gpu/host.js';
import type { Run } from '../../os/exec.js';
import { readTextIfAny } from '../../os/files.js';
import { versionOf } from '../../runtime/versions.js';
import { containerdThere } from './containerd-there.js';
import type { Facts, Question, ToolVersions } from './documents.js';
import { factsOfHost } from './host-facts.js';

export interface TargetContext {
  readonly root: string;
  readonly run: Run;
  readonly release: string;
  readonly host: Host;
  /** What `kfd-checkpoint check` fails on. */
  readonly failures: Facts['failures'];
  /** Where memory for what arrives is mounted, unless the question names a folder. */
  readonly memory: string;
}

/** Throws Node's error where the store cannot be looked at. */
export async function targetFacts(question: Question, context: TargetContext): Promise<Facts> {
  const { root, run, release, host, failures } = context;
  const memory = await availableMemory(root);
  const { failures: ofEngine, folder, ...known } = await knownThere(question, run, root);
  return {
    release,
    host: factsOfHost(host),
    tools: await toolVersions(run),
    failures: [...ofEngine, ...failures].slice(0, 64),
    ...known,
    missing_folders: await missing(question.folders, root),
    memory_free_bytes: memory,
    store:
      question.store === undefined
        ? { path: context.memory, free_bytes: memory, in_memory: true }
        : { ...(await folderAt(question.store, root)), in_memory: false },
    ...(folder !== undefined && { engine_store: await engineStore(folder, question, root) }),
  };
}

/** What the engine says of the image and of the name, and what stands against it. */
async function knownThere(question: Question, run: Run, root: string) {
  const { engine, container, image } = question;
  if (engine === 'containerd') return containerdThere(question, run, root);
  const found = await run('podman', ['container', 'exists', container]);
  const id = await imageId(image, run);
  return {
    failures: [],
    name_taken: found?.status === 0,
    ...(id !== undefined && { image_id: id }),
    folder: await graphRoot(run),
  };
}

/** Where podman has its containers. undefined: it does not tell. */
async function graphRoot(run: Run): Promise<string | undefined> {
  const found = await run('podman', ['info', '--format', '{{.Store.GraphRoot}}']);
  return /^(\/.*\S)\s*$/.exec(found?.stdout ?? '')?.[1];
}

async function engineStore(folder: string, { store }: Question, root: string) {
  const isWithStore =
    store !== undefined &&
    (await deviceOf(join(root, folder))) === (await deviceOf(join(root, store)));
  return { ...(await folderAt(folder, root)), with_store: isWithStore };
}

async function folderAt(path: string, root: string) {
  const { bavail, bsize } = await roomAt(join(root, path));
  return { path, free_bytes: bavail * bsize };
}

/** Free blocks of its file system, and their size in bytes. Throws Node's error. */
export function roomAt(folder: string): Promise<{ bavail: number; bsize: number }> {
  return nearest(folder, (path) => statfs(path));
}

/** The number of its file system. Throws Node's error. */
export async function deviceOf(folder: string): Promise<number> {
  return (await nearest(folder, (path) => stat(path))).dev;
}

/** What `ask` says of the folder, or of the one above it where it would be made. */
function nearest<T>(folder: string, ask: (path: string) => Promise<T>): Promise<T> {
  return ask(folder).catch((error: unknown) => {
    if (!isMissing(error) || dirname(folder) === folder) throw error;
    return nearest(dirname(folder), ask);
  });
}

/** Of either side. */
export async function toolVersions(run: Run): Promise<ToolVersions> {
  const names = ['criu', 'podman', 'crun', 'runc', 'containerd'] as const;
  const versions = await Promise.all(
    names.map(async (name) => [name, (await versionOf(run, name))?.text] as const),
  );
  return Object.fromEntries(versions.filter(([, text]) => text !== undefined));
}

async function imageId(name: string, run: Run): Promise<string | undefined> {
  const found = await run('podman', ['image', 'inspect', '--format', '{{.Id}}', name]);
  if (found?.status !== 0) return undefined;
  return /^(?:sha256:)?([0-9a-f]{64})\s*$/.exec(found.stdout)?.[1];
}

async function missing(folders: readonly string[], root: string): Promise<string[]> {
  const isThere = (folder: string) =>
    access(join(root, folder)).then(
      () => true,
      (error: unknown) => !isMissing(error),
    );
  const found = await Promise.all(folders.map(isThere));
  return folders.filter((_, at) => found[at] === false);
}

/** Bytes that programs can still take (proc_meminfo(5), MemAvailable). 0 where the kernel does not say. */
async function availableMemory(root: string): Promise<number> {
  const text = (await readTextIfAny(join(root, 'proc/meminfo'))) ?? '';
  return Number(/^MemAvailable:\s+(\d{1,12}) kB$/m.exec(text)?.[1] ?? 0) * 1024;
}
