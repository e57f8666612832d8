/**
 * `/etc/kfd-checkpoint/config.json`: every option is optional. Unknown options have no effect, so that a
 * file for another release does not stop every checkpoint. `check` and the session's log name them.
 */

import * as v from 'valibot';
import { KfdError } from './errors.js';
import { gpuSelector } from './gpu/gpu-map.js';
import { differences } from './gpu/ignorable.js';
import { readTextIfAny } from './os/files.js';

export const defaultConfigPath = '/etc/kfd-checkpoint/config.json';

const absolutePath = v.pipe(v.string(), v.regex(/^\/[^\0]*$/, 'must be an absolute path'));

/** node exporter reads no other names. */
const metricsPath = v.pipe(
  v.string(),
  v.regex(
    /^$|^\/[^\0]*(?<=[^/])\.prom$/,
    'must be empty, or an absolute path that ends with .prom',
  ),
);

const gpuName = v.pipe(
  v.string(),
  v.regex(gpuSelector, 'must name GPUs by renderD128, 0000:03:00.0 or a KFD id'),
);

function whole(min: number, max: number) {
  const range = `must be a whole number from ${min} to ${max}`;
  return v.pipe(v.number(range), v.integer(range), v.minValue(min, range), v.maxValue(max, range));
}

function wholeOrNone(min: number, max: number) {
  const range = `must be 0, or a whole number from ${min} to ${max}`;
  const isMeant = (value: number) => value === 0 || (value >= min && value <= max);
  return v.pipe(v.number(range), v.integer(range), v.check(isMeant, range));
}

const configSchema = v.object({
  /** true: uploads run during CRIU's own restore. false: they run after it, while CRIU waits. */
  parallel: v.optional(v.boolean(), true),
  /** Codecs that are tried on each frame of content. auto: a codec that saves space and costs no time. */
  compress: v.optional(v.picklist(['none', 'auto', 'lz4', 'zstd']), 'auto'),
  zstd_level: v.optional(whole(1, 19), 1),
  /** Memory for copies per GPU, MiB: the pinned ring and the frames of its workers. */
  staging_mib: v.optional(whole(8, 256), 64),
  /** Memory for copies of all sessions of the host together, MiB. */
  staging_total_mib: v.optional(whole(8, 1 << 20), 1024),
  /** With --leave-running: contents are copied, and the container runs while the copies are written. */
  short_freeze: v.optional(v.boolean(), true),
  /** The most host memory for such copies, MiB, when VRAM has no room. At most half of the free memory is used. */
  freeze_host_mib: v.optional(whole(0, 1 << 20), 4096),
  /** The most memory of a session, MiB. 0: the copies above and a fixed part (src/session/own-cgroup.ts). */
  session_memory_mib: v.optional(wholeOrNone(256, 1 << 24), 0),
  /** The most threads of a session. Each GPU that is copied at the same time has up to 20. */
  session_tasks: v.optional(whole(64, 1 << 20), 4096),
  /** The copy engine: SDMA, the CPU, or SDMA where it works. */
  engine: v.optional(v.picklist(['auto', 'sdma', 'cpu']), 'auto'),
  /** Seconds from a restore's start to the end of its uploads; podman itself gives up after 240. */
  gate_timeout_s: v.optional(whole(1, 86400), 200),
  log_dir: v.optional(absolutePath, '/var/log/kfd-checkpoint'),
  /** Session logs that stay in `log_dir`; older ones are removed. */
  keep_logs: v.optional(whole(1, 1_000_000), 1000),
  /** Counters of sessions are added to this file, for Prometheus' node exporter. Empty: nothing is counted. */
  metrics_file: v.optional(metricsPath, ''),
  /** Pairs of a recorded GPU and the GPU of this host that replaces it. They override the automatic choice. */
  gpu_map: v.optional(v.record(gpuName, gpuName), {}),
  /** Differences to the source host that are no reason against a restore. */
  ignore_mismatch: v.optional(v.array(v.picklist(differences)), []),
});

export type Config = Readonly<v.InferOutput<typeof configSchema>>;

/** The configuration of a host without a file. */
export function defaultConfig(): Config {
  return v.parse(configSchema, {});
}

export interface ConfigFile {
  readonly config: Config;
  /** Names in the file that this release does not know. */
  readonly unknownOptions: readonly string[];
}

/** Parses the text of a configuration file. Throws E_CONFIG naming every wrong value at once. */
export function parseConfig(text: string, path = defaultConfigPath): ConfigFile {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw new KfdError('E_CONFIG', `${path}: not JSON: ${(error as Error).message}`, {
      cause: error,
      hint: `run "sudoedit ${path}" and mend it; without the file the defaults apply`,
    });
  }
  if (Array.isArray(json)) throw new KfdError('E_CONFIG', `${path}: must be an object`);
  const result = v.safeParse(configSchema, json);
  if (result.success) {
    const names = Object.keys(json as object);
    return {
      config: result.output,
      unknownOptions: names.filter((name) => !Object.hasOwn(configSchema.entries, name)),
    };
  }
  const problems = result.issues.map((issue) => {
    const key = v.getDotPath(issue) ?? '';
    return key === '' ? 'must be an object' : `"${key}" ${reason(issue)}`;
  });
  throw new KfdError('E_CONFIG', `${path}: ${problems.join('; ')}`, {
    hint: `run "sudoedit ${path}" and correct or remove the option: then its default applies`,
    details: { problems },
  });
}

function reason(issue: v.BaseIssue<unknown>): string {
  if (issue.message.startsWith('must ')) return issue.message;
  return `must be ${issue.expected ?? 'something else'}, is ${issue.received}`;
}

/** The configuration of `readConfig`. */
export async function loadConfig(path = defaultConfigPath): Promise<Config> {
  return (await readConfig(path)).config;
}

/** Reads the configuration; a missing file means the defaults. Throws E_CONFIG. */
export async function readConfig(path = defaultConfigPath): Promise<ConfigFile> {
  let text: string | undefined;
  try {
    text = await readTextIfAny(path, 64 << 10);
  } catch (error) {
    throw new KfdError('E_CONFIG', `${path}: cannot be read: ${(error as Error).message}`, {
      cause: error,
    });
  }
  return text === undefined
    ? { config: defaultConfig(), unknownOptions: [] }
    : parseConfig(text, path);
}
