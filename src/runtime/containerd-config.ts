/** The runtime `kfd` in containerd's configuration for Kubernetes; `ctr` and nerdctl need none. */

export const dropInPath = '/etc/containerd/conf.d/50-kfd-checkpoint.toml';
/** containerd's own file. */
export const containerdConfigPath = '/etc/containerd/config.toml';

/** What a release of containerd calls its plugin for Kubernetes, and the version of configuration that has that name. */
interface Dialect {
  readonly version: number;
  readonly plugin: string;
}

/** Dialects differ between 1.x and 2.x. */
function dialect(major: number): Dialect {
  return major >= 2
    ? { version: 3, plugin: 'io.containerd.cri.v1.runtime' }
    : { version: 2, plugin: 'io.containerd.grpc.v1.cri' };
}

/** The program that containerd starts as a shim. */
export function shimProgram(prefix: string): string {
  return `${prefix}/shim/containerd-shim-kfd-v2`;
}

/**
 * The table of the runtime. Its type is the stock one's: containerd compares that name in places where it should ask what a
 * runtime can do, checkpoints among them.
 */
function runtimeTable(plugin: string, prefix: string): string {
  return `[plugins.'${plugin}'.containerd.runtimes.kfd]
  runtime_type = 'io.containerd.runc.v2'
  runtime_path = '${shimProgram(prefix)}'
`;
}

/** A whole drop-in, or lines for containerd's own file. */
export type RuntimeText =
  | { readonly dropIn: string; readonly lines?: undefined }
  | { readonly dropIn?: undefined; readonly lines: string };

/**
 * What tells a containerd of this major release, whose own file is `main`, of the runtime. A file that has a section of the
 * plugin must have the lines itself: containerd 1.7 takes the last section it finds, whole, and forgets the others.
 */
export function runtimeText(main: string | undefined, major: number, prefix: string): RuntimeText {
  const { version, plugin } = dialect(major);
  const table = runtimeTable(plugin, prefix);
  const name = plugin.replaceAll('.', '\\.');
  const section = new RegExp(`^\\s*\\[\\s*plugins\\s*\\.\\s*["']?${name}["']?[\\s.\\]]`, 'm');
  return main !== undefined && section.test(main)
    ? { lines: table }
    : { dropIn: `version = ${version}\n\n${table}` };
}

/** Whether containerd reads the drop-in, as far as its own file tells. */
export function importsDropIn(main: string | undefined): boolean {
  return (
    main !== undefined &&
    /^\s*imports\s*=\s*\[[^\]]*\/etc\/containerd\/conf\.d\/\*\.toml/m.test(main)
  );
}
