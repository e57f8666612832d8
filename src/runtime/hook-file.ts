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

/** The template `hooks/50-kfd-checkpoint.json` of an installation, made ready for `prefix`. */
export function renderHookFile(template: string, prefix: string): string {
  const text = template.replaceAll('@PREFIX@', prefix);
  v.parse(hookSchema, JSON.parse(text));
  return text;
}

/** Program the hook file starts. Throws when it is not valid: podman then starts no container. */
export function hookProgram(text: string): string {
  return v.parse(hookSchema, JSON.parse(text)).hook.path;
}
