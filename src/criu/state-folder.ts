/**
 * What CRIU loads, and what that starts at once. It is outside the package: CRIU fails every dump
 * and restore of the host when its libdir is not there or a plugin in it does not load, and a
 * package may be removed or damaged without asking us.
 */

export const stateFolder = '/var/lib/kfd-checkpoint';

/**
 * Sessions listen below it, by the pid of their CRIU; native/core/wire/session_socket.cc and hooks/criu-action have it,
 * too.
 */
export const runFolder = '/run/kfd-checkpoint';

/**
 * Sessions share the host's staging memory by locks on it. Not in the folder, which is for sessions alone; never
 * removed.
 */
export const stagingFile = '/run/kfd-checkpoint.staging';

/** Folder with our plugin alone: CRIU loads every .so in it, and only those. */
export const libdir = `${stateFolder}/criu`;

const pluginName = 'kfd_checkpoint.so';
const launcherName = 'kfd-checkpoint-launch';

/** The copy of the plugin that CRIU loads. */
export const loadedPlugin = `${libdir}/${pluginName}`;

/** What CRIU runs at every stage, once the plugin has found a GPU; native/criu-plugin/action_script.cc has it, too. */
export const actionScriptPath = `${stateFolder}/criu-action`;

/** The copy of the launcher that the action script runs; it looks for it beside itself. */
export const launcherPath = `${stateFolder}/${launcherName}`;

/** The plugin of an installation. */
export function packagedPlugin(prefix: string): string {
  return `${prefix}/criu/${pluginName}`;
}

/** The launcher of an installation. */
export function packagedLauncher(prefix: string): string {
  return `${prefix}/libexec/${launcherName}`;
}

/** What becomes the script at `actionScriptPath`. */
export function actionScriptTemplate(prefix: string): string {
  return `${prefix}/hooks/criu-action`;
}

/** Text of that script for `prefix`, which has to be free of what a shell expands in quotes. */
export function renderActionScript(template: string, prefix: string): string {
  return template.replaceAll('@PREFIX@', prefix);
}
