/** Versions of container engines and tools, from `--version`. */

import type { Run, RunResult } from '../os/exec.js';

export interface ToolVersion {
  readonly text: string;
  readonly major: number;
  readonly minor: number;
}

/** Whether a version is older than "X.Y" or "X.Y.Z". A missing part counts as 0. */
export function isOlder({ text }: ToolVersion, than: string): boolean {
  const [is, wanted] = [text, than].map((one) => one.split('.').map(Number));
  for (const at of [0, 1, 2]) {
    const difference = (is?.[at] ?? 0) - (wanted?.[at] ?? 0);
    if (difference !== 0) return difference < 0;
  }
  return false;
}

/** The first "X.Y[.Z]" in a text, also behind a "v". */
export function parseVersion(output: string): ToolVersion | undefined {
  const match = /(?<![\w.])v?((\d{1,4})\.(\d{1,4})(?:\.\d{1,4})?)\b/.exec(output);
  const [, text, major, minor] = match ?? [];
  if (text === undefined) return undefined;
  return { text, major: Number(major), minor: Number(minor) };
}

/** crun's version and build flags ("+CRIU", "+SYSTEMD", ...). */
export interface CrunFacts extends ToolVersion {
  readonly hasCriu: boolean;
}

export function parseCrun(output: string): CrunFacts | undefined {
  const version = parseVersion(output);
  return version && { ...version, hasCriu: /(^|\s)\+CRIU(\s|$)/.test(output) };
}

/** The version in the output of `--version`, or why there is none: "not in PATH", or what the tool says instead. */
export function versionIn(result: RunResult | undefined): ToolVersion | string {
  if (result === undefined) return 'not in PATH';
  const version = result.status === 0 ? parseVersion(result.stdout) : undefined;
  if (version !== undefined) return version;
  const said = result.stderr.trim().split('\n').at(-1) ?? '';
  return said === '' ? '--version prints no version' : `--version fails: ${said.slice(0, 200)}`;
}

export async function askVersion(run: Run, command: string): Promise<ToolVersion | string> {
  return versionIn(await run(command, ['--version']));
}

/** The version a tool prints; undefined when it is missing, fails, or prints none. */
export async function versionOf(run: Run, command: string): Promise<ToolVersion | undefined> {
  const version = await askVersion(run, command);
  return typeof version === 'string' ? undefined : version;
}
