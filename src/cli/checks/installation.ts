/** Checks of our own installation: CRIU's configuration, the plugin, the hook, our folders. */

import { access, constants, readdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { type Config, loadConfig } from '../../config.js';
import { isWholeElf, isWholeScript } from '../../criu/damage.js';
import { blockProblems, defaultConfPath } from '../../criu/default-conf.js';
import {
  actionScriptPath,
  launcherPath,
  libdir,
  loadedPlugin,
  runFolder,
} from '../../criu/state-folder.js';
import { asKfdError, isMissing, type KfdError } from '../../errors.js';
import { readTextIfAny } from '../../os/files.js';
import { assertHookFile, hookFilePath, precreateProgram } from '../../runtime/hook-file.js';
import { type PackageParts, readPackage } from '../package-parts.js';
import { type Place, read } from '../place.js';
import { type Check, type Finding, fail, ok, warn } from './finding.js';

const configure = 'run "kfd-checkpoint configure"';
const reinstall = 'install the package again';

export const criuConfiguration: Check = async ({ root, prefix }) => {
  const problems = blockProblems((await readTextIfAny(join(root, defaultConfPath))) ?? '');
  const conf =
    problems.length === 0
      ? ok('default.conf', defaultConfPath)
      : fail('default.conf', `${defaultConfPath}: ${problems.join('; ')}`, configure);
  const place = { root, prefix };
  const parts = await readPackage(place);
  return [
    conf,
    await pluginFinding(place, parts),
    await launcherFinding(place, parts),
    await actionFinding(place, parts),
    packageFinding(parts),
  ];
};

/** CRIU loads every .so in the folder; two owners of /dev/kfd would fight. */
async function pluginFinding(place: Place, { plugin }: PackageParts): Promise<Finding> {
  let entries: string[];
  try {
    entries = await readdir(join(place.root, libdir));
  } catch (error) {
    const why = isMissing(error) ? 'not there: every dump and restore fails' : String(error);
    return fail('plugin', `${libdir}: ${why}`, configure);
  }
  const foreign = entries.filter((name) => name !== basename(loadedPlugin));
  if (foreign.length > 0) {
    const hint = `keep only ${basename(loadedPlugin)} in ${libdir}: CRIU loads every plugin there`;
    return fail('plugin', `${libdir}: not ours: ${foreign.join(', ')}`, hint);
  }
  const loaded = await read(place, loadedPlugin);
  if (loaded === undefined) return fail('plugin', `${loadedPlugin}: not there`, configure);
  if (!isWholeElf(loaded)) {
    return fail('plugin', `${loadedPlugin}: damaged: every dump and restore fails`, configure);
  }
  return isOld(loaded, plugin)
    ? warn('plugin', `${loadedPlugin}: not the plugin of this installation`, `${configure} again`)
    : ok('plugin', loadedPlugin);
}

async function launcherFinding(place: Place, { launcher }: PackageParts): Promise<Finding> {
  const name = 'launcher';
  if (!(await isAllowed(join(place.root, launcherPath), constants.X_OK))) {
    const message = `${launcherPath}: not executable: no container with a GPU can be saved`;
    return fail(name, message, configure);
  }
  const copy = await read(place, launcherPath);
  return isOld(copy, launcher) || !isWholeElf(copy ?? '')
    ? fail(name, `${launcherPath}: not that of this installation`, `${configure} again`)
    : ok(name, launcherPath);
}

async function actionFinding(place: Place, { action }: PackageParts): Promise<Finding> {
  const name = 'action script';
  if (!(await isAllowed(join(place.root, actionScriptPath), constants.X_OK))) {
    const message = `${actionScriptPath}: not executable: no container with a GPU can be saved`;
    return fail(name, message, configure);
  }
  const copy = await read(place, actionScriptPath);
  return isOld(copy, action) || !isWholeScript(copy ?? '')
    ? fail(name, `${actionScriptPath}: not that of this installation`, `${configure} again`)
    : ok(name, actionScriptPath);
}

/** What `configure` would copy. */
function packageFinding({ unusable }: PackageParts): Finding {
  return unusable.length === 0
    ? ok('package', 'what CRIU and podman are given is whole')
    : warn('package', `missing or damaged: ${unusable.join(', ')}`, reinstall);
}

/** Nothing is known where the package is damaged; the finding on the package says so. */
function isOld(installed: string | undefined, packaged: string | undefined): boolean {
  return packaged !== undefined && installed !== packaged;
}

export const hook: Check = async ({ root, prefix }) => {
  const text = await read({ root, prefix }, hookFilePath);
  const consequence = 'archives carry no GPU annotations';
  if (text === undefined) {
    return [warn('hook', `${hookFilePath}: not there; ${consequence}`, configure)];
  }
  try {
    assertHookFile(text);
  } catch (error) {
    const reason = (error as Error).message;
    const hint = `podman starts no container with it: ${configure}`;
    return [fail('hook', `${hookFilePath}: not valid: ${reason}`, hint)];
  }
  const program = precreateProgram(prefix);
  if (!(await isAllowed(join(root, program), constants.R_OK))) {
    return [warn('hook', `${program}: cannot be read; ${consequence}`, reinstall)];
  }
  const { hook: expected } = await readPackage({ root, prefix });
  return isOld(text, expected)
    ? [warn('hook', `${hookFilePath}: not that of this installation`, `${configure} again`)]
    : [ok('hook', hookFilePath)];
};

export const folders: Check = async ({ root }) => {
  let config: Config;
  try {
    config = await loadConfig(join(root, 'etc/kfd-checkpoint/config.json'));
  } catch (error) {
    const known: KfdError = asKfdError(error, 'config.json');
    return [fail('configuration', known.message, known.hint ?? 'mend the file')];
  }
  const findings = [ok('configuration', 'valid')];
  for (const folder of [runFolder, config.log_dir]) {
    const place = await existingAncestor(join(root, folder));
    findings.push(
      (await isAllowed(place, constants.W_OK))
        ? ok('folder', folder)
        : fail('folder', `${folder}: cannot be written`, 'run as root, or change log_dir'),
    );
  }
  return findings;
};

/** The folder itself, or the one in which it would be made. */
async function existingAncestor(path: string): Promise<string> {
  let place = path;
  while (place !== dirname(place) && !(await isAllowed(place, constants.F_OK))) {
    place = dirname(place);
  }
  return place;
}

async function isAllowed(path: string, mode: number): Promise<boolean> {
  return access(path, mode).then(
    () => true,
    () => false,
  );
}
