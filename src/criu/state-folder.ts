/**
 * The files CRIU's configuration names. They are outside the package: CRIU fails every dump and
 * restore of the host when its libdir or its action script is not there, or when a plugin in the
 * libdir does not load, and a package may be removed or damaged without asking us.
 */

export const stateFolder = '/var/lib/kfd-checkpoint';

/** Sessions listen below it, by the pid of their CRIU; native/core/wire.cc has it, too. */
export const runFolder = '/run/kfd-checkpoint';

/** Folder with our plugin alone: CRIU loads every .so in it, and only those. */
export const libdir = `${stateFolder}/criu`;

const pluginName = 'kfd_checkpoint.so';

/** The copy of the plugin that CRIU loads. */
export const loadedPlugin = `${libdir}/${pluginName}`;

/** What CRIU runs at every stage. */
export const actionScriptPath = `${stateFolder}/criu-action`;

/** The plugin of an installation. */
export function packagedPlugin(prefix: string): string {
  return `${prefix}/criu/${pluginName}`;
}

/** The action script of an installation. */
export function packagedActionScript(prefix: string): string {
  return `${prefix}/hooks/criu-action`;
}

/** Text of the script at `actionScriptPath`. The prefix has to be free of what a shell expands. */
export function actionScript(prefix: string): string {
  const action = packagedActionScript(prefix);
  return `#!/bin/sh
# Written by "kfd-checkpoint configure"; do not edit. CRIU runs this at every stage of every dump and
# restore on this host, also when the package is gone.
[ -x ${action} ] && exec ${action}
# Where a session of this CRIU waits at its gate, an unfinished dump or restore would be accepted.
case $CRTOOLS_SCRIPT_ACTION in
  post-dump | post-restore) [ -e "${runFolder}/$PPID/sock" ] && exit 1 ;;
esac
exit 0
`;
}
