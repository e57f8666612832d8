/**
 * How a command that runs podman passes something to the sessions of that podman: by a folder named after the command's
 * process. The folder of a killed command is known by its name.
 */

const kinds = ['parent', 'contents'] as const;
export type CommandFolderKind = (typeof kinds)[number];

const pattern = new RegExp(`^(${kinds.join('|')})-([1-9]\\d{0,8})-(\\d+)$`);

/** Name of that folder in the run folder; `process`: see `processName`. */
export function commandFolderName(kind: CommandFolderKind, process: string): string {
  return `${kind}-${process}`;
}

/** The process in such a name, by its name and its pid; undefined for any other name. */
export function commandOf(
  name: string,
): { readonly kind: string; readonly process: string; readonly pid: number } | undefined {
  const [, kind, pid, start] = pattern.exec(name) ?? [];
  if (kind === undefined) return undefined;
  return { kind, process: `${pid}-${start}`, pid: Number(pid) };
}
