/** Versions of container engines and tools, from `--version`. */

import type { Run } from '../os/exec.js';

export interface ToolVersion {
  readonly text: string;
  readonly major: number;
  readonly minor: number;
}

/** The first "X.Y[.Z]" in a text. */
export function parseVersion(output: string): ToolVersion | undefined {
  const match = /\b(\d{1,4})\.(\d{1,4})(?:\.\d{1,4})?\b/.exec(output);
  if (match === null) return undefined;
  return { text: match[0], major: Number(match[1]), minor: Number(match[2]) };
}

/** crun's version and build flags ("+CRIU", "+SYSTEMD", ...). */
export interface CrunFacts extends ToolVersion {
  readonly hasCriu: boolean;
}

export function parseCrun(output: string): CrunFacts | undefined {
  const version = parseVersion(output);
  return version && { ...version, hasCriu: /(^|\s)\+CRIU(\s|$)/.test(output) };
}

/** The version a tool prints; undefined when it is missing, fails, or prints none. */
export async function versionOf(run: Run, command: string): Promise<ToolVersion | undefined> {
  const result = await run(command, ['--version']);
  return result?.status === 0 ? parseVersion(result.stdout) : undefined;
}
