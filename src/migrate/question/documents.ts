/** What the source asks, and what the target says of itself. Programs and paths of the other host are only compared. */

import * as v from 'valibot';
import { namePattern } from '../../containerd/ctr.js';
import { manifestLimits } from '../../manifest/schema.js';
import { fitting } from '../wire/messages.js';
import { hostFactsSchema } from './host-facts.js';

const text = (max: number) => v.pipe(v.string(), v.maxLength(max));
const bytes = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(manifestLimits.bytes));
const path = v.pipe(v.string(), v.maxLength(4095), v.regex(/^\/[^\0]*$/, 'not an absolute path'));
/** Of podman: libpod/define/config.go, NameRegex. */
const containerName = v.pipe(v.string(), v.maxLength(255), v.regex(/^[a-zA-Z0-9][\w.-]*$/));
const imageName = v.pipe(v.string(), v.maxLength(1024), v.regex(/^[\w][\w.:@/-]*$/));

const questionSchema = v.object({
  engine: v.picklist(['podman', 'containerd']),
  /** Of containerd. */
  namespace: v.exactOptional(v.pipe(v.string(), v.maxLength(76), v.regex(namePattern))),
  /** Of containerd: the name of the container's runtime, or the path of its shim. */
  runtime: v.exactOptional(v.pipe(v.string(), v.maxLength(4095), v.regex(/^[\w./-]+$/))),
  /** The name that the container will have there. */
  container: containerName,
  image: imageName,
  image_id: v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/)),
  /** Folders of the source host that are mounted in the container. */
  folders: v.pipe(v.array(path), v.maxLength(256)),
  /** The folder where what arrives shall be kept. Missing: memory. */
  store: v.exactOptional(path),
});

/** Versions as the tools print them. Missing: there is no such program, or it tells none. */
const tools = v.object({
  criu: v.exactOptional(text(64)),
  podman: v.exactOptional(text(64)),
  crun: v.exactOptional(text(64)),
  runc: v.exactOptional(text(64)),
  containerd: v.exactOptional(text(64)),
});

const factsSchema = v.object({
  /** Of kfd-checkpoint. */
  release: text(64),
  host: hostFactsSchema,
  tools,
  /** What `kfd-checkpoint check` fails on there. */
  failures: v.pipe(
    v.array(v.object({ name: text(64), message: text(4096), hint: text(4096) })),
    v.maxLength(64),
  ),
  /** Why the engine of the question does not answer. Then name and image are not known. */
  engine_silent: v.exactOptional(text(1024)),
  name_taken: v.boolean(),
  /** The id of the image that has the name. Missing: no image has it. */
  image_id: v.exactOptional(v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/))),
  /** The folders of the question that are missing. */
  missing_folders: v.pipe(v.array(path), v.maxLength(256)),
  memory_free_bytes: bytes,
  /** Where what arrives is kept: a folder and its free bytes, or memory, which is mounted below `path`. */
  store: v.object({ path, free_bytes: bytes, in_memory: v.boolean() }),
  /** Where the engine restores to; `with_store`: on the file system of the store. Missing: it does not tell. */
  engine_store: v.exactOptional(v.object({ path, free_bytes: bytes, with_store: v.boolean() })),
});

export type Question = v.InferOutput<typeof questionSchema>;
export type Facts = v.InferOutput<typeof factsSchema>;
export type ToolVersions = Facts['tools'];

/** Throws E_PROTOCOL. */
export function questionOf(value: unknown): Question {
  return fitting(value, questionSchema, 'migration: the question');
}

/** Throws E_PROTOCOL. */
export function factsOf(value: unknown): Facts {
  return fitting(value, factsSchema, "migration: the target's answer");
}
