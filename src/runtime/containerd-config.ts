/** The runtime `kfd` in containerd's configuration for Kubernetes. `ctr` and nerdctl need none. */

import { basename } from 'node:path';
import { parse, type TomlTable } from 'smol-toml';
import { KfdError } from '../errors.js';
import { restoreAnnotation } from './shim-names.js';

export const dropInPath = '/etc/containerd/conf.d/50-kfd-checkpoint.toml';
/** containerd's own file. */
export const containerdConfigPath = '/etc/containerd/config.toml';
/** The line of containerd's own file that makes containerd read the drop-in. */
export const dropInPattern = '/etc/containerd/conf.d/*.toml';

/**
 * The name that a release of containerd gives its plugin for Kubernetes, and the version of the
 * configuration that has this name.
 */
interface Dialect {
  readonly version: number;
  readonly plugin: string;
}

/**
 * Dialects differ between 1.x and 2.x. Releases 2.x read the older one, too, and do not start with a drop-in that is
 * newer than their own file (`cmd/containerd/server/config/config.go:LoadConfigWithPlugins`).
 */
function dialect(major: number, main: ContainerdConfig): Dialect {
  return major >= 2 && main.version !== 2
    ? { version: 3, plugin: 'io.containerd.cri.v1.runtime' }
    : { version: 2, plugin: 'io.containerd.grpc.v1.cri' };
}

/** The program that containerd starts as a shim. */
export function shimProgram(prefix: string): string {
  return `${prefix}/shim/containerd-shim-kfd-v2`;
}

export interface RuntimeOptions {
  /** Folder of the installation at run time. */
  readonly prefix: string;
  /** Pods may name the image that they are restored from. */
  readonly podAnnotations?: boolean;
}

/**
 * The table of the runtime. It has the type of the stock runtime, because containerd compares that
 * name in places where it should ask what a runtime can do. Checkpoints are one of these places. A
 * kubelet that lets systemd make cgroups needs runc to do the same, as the stock runtime says.
 */
function runtimeTable(
  plugin: string,
  { prefix, podAnnotations }: RuntimeOptions,
  systemd: boolean,
): string {
  const table = `plugins.'${plugin}'.containerd.runtimes.kfd`;
  const patterns = `['${restoreAnnotation}', '${restoreAnnotation}/*']`;
  return `[${table}]
  runtime_type = 'io.containerd.runc.v2'
  runtime_path = '${shimProgram(prefix)}'
${podAnnotations === true ? `  pod_annotations = ${patterns}\n` : ''}${
  systemd ? `  [${table}.options]\n    SystemdCgroup = true\n` : ''
}`;
}

/** A whole drop-in, or lines for containerd's own file. */
export type RuntimeText =
  | { readonly dropIn: string; readonly lines?: undefined }
  | { readonly dropIn?: undefined; readonly lines: string };

/** containerd's own file. */
export interface ContainerdConfig {
  /** Undefined without a number. */
  readonly version: number | undefined;
  readonly imports: readonly unknown[];
  /** Names of the plugins that have settings. */
  readonly plugins: readonly string[];
  /** The runtimes for Kubernetes, of all plugins. */
  readonly runtimes: readonly Runtime[];
}

/** A runtime for Kubernetes. Values that are no strings are left out. */
export interface Runtime {
  readonly name: string;
  /** `runtime_type`. */
  readonly type: string | undefined;
  /** `runtime_path`. */
  readonly path: string | undefined;
  /** `BinaryName` of its options: the OCI runtime. */
  readonly binary: string | undefined;
  /** `SystemdCgroup` of its options: systemd makes the cgroups. */
  readonly systemdCgroup: boolean;
  /** `pod_annotations`: those that reach its containers. */
  readonly podAnnotations: readonly string[];
}

/** Parses containerd's own file, or the drop-in; undefined: the host has none. Throws E_CONFIG. */
export function parseContainerdConfig(
  text: string | undefined,
  path = containerdConfigPath,
): ContainerdConfig {
  let table: TomlTable;
  try {
    // Numbers above 2^53 are kept: the default is an error.
    table = parse(text ?? '', { integersAsBigInt: 'asNeeded' });
  } catch (error) {
    const [reason] = (error as Error).message.split('\n');
    throw new KfdError('E_CONFIG', `${path}: ${reason}`, {
      cause: error,
      hint: 'correct the file: containerd does not start with it either',
    });
  }
  const { imports, plugins, version } = table;
  return {
    version: typeof version === 'number' ? version : undefined,
    imports: Array.isArray(imports) ? imports : [],
    plugins: Object.keys(tableIn(plugins)),
    runtimes: Object.values(tableIn(plugins)).flatMap((plugin) =>
      Object.entries(tableIn(tableIn(tableIn(plugin)['containerd'])['runtimes'])).map(runtimeOf),
    ),
  };
}

function tableIn(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {};
}

function runtimeOf([name, value]: [string, unknown]): Runtime {
  const table = tableIn(value);
  const text = (one: unknown) => (typeof one === 'string' ? one : undefined);
  const patterns: unknown = table['pod_annotations'];
  return {
    name,
    type: text(table['runtime_type']),
    path: text(table['runtime_path']),
    binary: text(tableIn(table['options'])['BinaryName']),
    systemdCgroup: tableIn(table['options'])['SystemdCgroup'] === true,
    podAnnotations: Array.isArray(patterns) ? patterns.map(String) : [],
  };
}

/** Whether containerd starts our shim for the runtime: by its path, or by the last parts of its name. */
export function startsOurShim({ type, path }: Runtime, prefix: string): boolean {
  return path === undefined || path === ''
    ? type?.endsWith('.kfd.v2') === true
    : path === shimProgram(prefix) || basename(path) === basename(shimProgram(prefix));
}

/** What the runtime has not, of what was asked for, or of what the stock runtime has. */
export function lacksOf(one: Runtime, main: ContainerdConfig, podAnnotations: boolean): string[] {
  const stock = main.runtimes.find(({ name }) => name === 'runc');
  return [
    ...(stock?.systemdCgroup === true && !one.systemdCgroup ? ['SystemdCgroup'] : []),
    ...(podAnnotations && !one.podAnnotations.includes(restoreAnnotation)
      ? ['pod_annotations']
      : []),
  ];
}

/**
 * The text that adds the runtime to a containerd of this major release, whose own file is `main`. A
 * file with settings of the plugin must hold the lines itself. The reason: containerd 1.7 uses the
 * last section that it finds, whole, and ignores the others.
 */
export function runtimeText(
  main: ContainerdConfig,
  major: number,
  options: RuntimeOptions,
): RuntimeText {
  const { version, plugin } = dialect(major, main);
  const stock = main.runtimes.find(({ name }) => name === 'runc');
  const table = runtimeTable(plugin, options, stock?.systemdCgroup === true);
  return main.plugins.includes(plugin)
    ? { lines: table }
    : { dropIn: `version = ${version}\n\n${table}` };
}

/** Whether containerd's own file imports the drop-in. */
export function importsDropIn({ imports }: ContainerdConfig): boolean {
  return imports.includes(dropInPattern) || imports.includes(dropInPath);
}
