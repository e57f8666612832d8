/**
 * The plugin that CRIU loads, and the programs that the plugin starts. They are outside the package, which may be
 * removed or damaged. CRIU fails every dump and restore of the host when its libdir is missing or a plugin in it does
 * not load.
 */

export const stateFolder = '/var/lib/kfd-checkpoint';

/**
 * The folder of the sessions' sockets, one folder per CRIU pid. native/core/wire/session_socket.cc and
 * hooks/criu-action have it, too.
 */
export const runFolder = '/run/kfd-checkpoint';

/**
 * Locks on this file share the host's staging memory among sessions. It is never removed, and is outside the folder of
 * sessions.
 */
export const stagingFile = '/run/kfd-checkpoint.staging';

/** Folder with only our plugin: CRIU loads every .so in it, and no other. */
export const libdir = `${stateFolder}/criu`;

const pluginName = 'kfd_checkpoint.so';
const launcherName = 'kfd-checkpoint-launch';

/** The copy of the plugin that CRIU loads. */
export const loadedPlugin = `${libdir}/${pluginName}`;

/**
 * The script that CRIU runs at every stage after the plugin has found a GPU. native/criu-plugin/action_script.cc has
 * it, too.
 */
export const actionScriptPath = `${stateFolder}/criu-action`;

/** The copy of the launcher, beside the action script that runs it. */
export const launcherPath = `${stateFolder}/${launcherName}`;

/** The plugin of an installation. */
export function packagedPlugin(prefix: string): string {
  return `${prefix}/criu/${pluginName}`;
}

/** The launcher of an installation. */
export function packagedLauncher(prefix: string): string {
  return `${prefix}/libexec/${launcherName}`;
}

/** The template of the script at `actionScriptPath`. */
export function actionScriptTemplate(prefix: string): string {
  return `${prefix}/hooks/criu-action`;
}

/** Text of that script. `prefix` must have no character that a shell expands in quotes. */
export function renderActionScript(template: string, prefix: string): string {
  return template.replaceAll('@PREFIX@', prefix);
}
