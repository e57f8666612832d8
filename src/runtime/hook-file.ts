/** The file that tells podman of the precreate hook. */

import * as v from 'valibot';

/** The one folder every podman version reads without being told. */
export const hookFilePath = '/usr/share/containers/oci/hooks.d/50-kfd-checkpoint.json';

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

/**
 * The text of an installation's template, made ready for `prefix`, which becomes part of a shell
 * command: it has to be free of what a shell expands. Throws when the result is not valid.
 */
export function renderHookFile(template: string, prefix: string): string {
  const text = fillTemplate(template, prefix);
  assertHookFile(text);
  return text;
}

/** As `renderHookFile`, whatever comes out. */
export function fillTemplate(template: string, prefix: string): string {
  return template.replaceAll('@PREFIX@', prefix);
}

/** Throws when a hook file is not valid: podman then starts no container. */
export function assertHookFile(text: string): void {
  v.parse(hookSchema, JSON.parse(text));
}

/** The template of an installation. */
export function hookTemplate(prefix: string): string {
  return `${prefix}/hooks/50-kfd-checkpoint.json`;
}

/** What the hook file starts where it is there: podman starts no container without its program. */
export function precreateProgram(prefix: string): string {
  return `${prefix}/hooks/precreate`;
}
