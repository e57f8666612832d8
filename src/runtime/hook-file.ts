/** The file that registers the precreate hook with podman. */

import * as v from 'valibot';

/** The one folder every podman version reads without configuration. */
export const hookFolder = '/usr/share/containers/oci/hooks.d';
export const hookFilePath = `${hookFolder}/50-kfd-checkpoint.json`;

const hookSchema = v.object({
  version: v.literal('1.0.0'),
  hook: v.object({
    path: v.pipe(v.string(), v.regex(/^\//, 'must be absolute')),
    args: v.optional(v.array(v.string())),
    env: v.optional(v.array(v.string())),
    timeout: v.optional(v.number()),
  }),
  when: v.object({ always: v.optional(v.boolean()) }),
  stages: v.array(v.string()),
});

/** The two files of an installation that the hook file is made of. */
export interface HookParts {
  readonly template: string;
  /** The shell script that podman is to run; it becomes an argument of /bin/sh. */
  readonly script: string;
}

/**
 * The text of the hook file. `prefix` must have no character that a shell expands in quotes. Throws when the result is
 * invalid: podman would start no container.
 */
export function renderHookFile({ template, script }: HookParts, prefix: string): string {
  const command = JSON.stringify(script.replaceAll('@PREFIX@', prefix));
  const text = template.replace('"@PRECREATE@"', () => command);
  assertHookFile(text);
  return text;
}

/** Throws when a hook file is not valid: podman then starts no container. */
export function assertHookFile(text: string): void {
  v.parse(hookSchema, JSON.parse(text));
}

/** The template of an installation. */
export function hookTemplate(prefix: string): string {
  return `${prefix}/hooks/50-kfd-checkpoint.json`;
}

/** The script that becomes part of the hook file. */
export function hookScript(prefix: string): string {
  return `${prefix}/hooks/precreate`;
}

/** The program that the script starts for containers with `/dev/kfd`. */
export function precreateProgram(prefix: string): string {
  return `${prefix}/dist/hooks/precreate.js`;
}
