/** Checks of the installation: CRIU's configuration, the plugin, the hook and our folders. */

import { access, constants, readdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { type ConfigFile, readConfig } from '../../config.js';
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
import { assertHookFile, hookFilePath, precreateProgram } from '../../runtime/hook-file.js';
import { hookStopsCrio } from '../crio.js';
import { type PackageParts, readPackage } from '../package-parts.js';
import { type Roots, read } from '../roots.js';
import { type Check, type Finding, fail, ok, warn } from './finding.js';

const configure = 'run "kfd-checkpoint configure"';

/** What makes CRIU load the plugin for podman. For containerd the shim does. */
export const criuConfiguration: Check = async ({ root, prefix }) => {
  const problems = blockProblems((await read({ root, prefix }, defaultConfPath)) ?? '');
  return [
    problems.length === 0
      ? ok('default.conf', defaultConfPath)
      : fail('default.conf', `${defaultConfPath}: ${problems.join('; ')}`, configure),
  ];
};

/** What CRIU loads and runs, for every container engine. */
export const copies: Check = async ({ root, prefix }) => {
  const roots = { root, prefix };
  const parts = await readPackage(roots);
  return [
    await pluginFinding(roots, parts),
    await launcherFinding(roots, parts),
    await actionFinding(roots, parts),
  ];
};

/** The files that `configure` copies. */
export const packaged: Check = async ({ root, prefix, mend }) => {
  const { unusable } = await readPackage({ root, prefix });
  return [
    unusable.length === 0
      ? ok('package', 'complete')
      : warn('package', `missing or damaged: ${unusable.join(', ')}`, mend.reinstall),
  ];
};

/** CRIU loads every .so in the folder. Two plugins for /dev/kfd would conflict. */
async function pluginFinding(roots: Roots, { plugin }: PackageParts): Promise<Finding> {
  let entries: string[];
  try {
    entries = await readdir(join(roots.root, libdir));
  } catch (error) {
    const why = isMissing(error) ? 'missing: every checkpoint and restore fails' : String(error);
    return fail('plugin', `${libdir}: ${why}`, configure);
  }
  const foreign = entries.filter((name) => name !== basename(loadedPlugin));
  if (foreign.length > 0) {
    const isPlain = foreign.every((name) => /^[\w.-]+$/.test(name) && !name.startsWith('-'));
    const remove = `run "cd ${libdir} && rm ${foreign.join(' ')}"`;
    const hint = isPlain ? remove : `keep only ${basename(loadedPlugin)} in ${libdir}`;
    return fail('plugin', `${libdir}: other plugins: ${foreign.join(', ')}`, hint);
  }
  const loaded = await read(roots, loadedPlugin);
  if (loaded === undefined) return fail('plugin', `${loadedPlugin}: missing`, configure);
  if (!isWholeElf(loaded)) {
    return fail(
      'plugin',
      `${loadedPlugin}: damaged: every checkpoint and restore fails`,
      configure,
    );
  }
  return isOld(loaded, plugin)
    ? warn(
        'plugin',
        `${loadedPlugin}: differs from the plugin of this installation`,
        `${configure} again`,
      )
    : ok('plugin', loadedPlugin);
}

async function launcherFinding(roots: Roots, { launcher }: PackageParts): Promise<Finding> {
  const name = 'launcher';
  if (!(await isAllowed(join(roots.root, launcherPath), constants.X_OK))) {
    const message = `${launcherPath}: not executable: no container with a GPU can be checkpointed`;
    return fail(name, message, configure);
  }
  const copy = await read(roots, launcherPath);
  return isOld(copy, launcher) || !isWholeElf(copy ?? '')
    ? fail(
        name,
        `${launcherPath}: differs from the launcher of this installation`,
        `${configure} again`,
      )
    : ok(name, launcherPath);
}

async function actionFinding(roots: Roots, { action }: PackageParts): Promise<Finding> {
  const name = 'action script';
  if (!(await isAllowed(join(roots.root, actionScriptPath), constants.X_OK))) {
    const message = `${actionScriptPath}: not executable: no container with a GPU can be checkpointed`;
    return fail(name, message, configure);
  }
  const copy = await read(roots, actionScriptPath);
  return isOld(copy, action) || !isWholeScript(copy ?? '')
    ? fail(
        name,
        `${actionScriptPath}: differs from the script of this installation`,
        `${configure} again`,
      )
    : ok(name, actionScriptPath);
}

/** False when the packaged file is damaged. The finding of the package reports that. */
function isOld(installed: string | undefined, packaged: string | undefined): boolean {
  return packaged !== undefined && installed !== packaged;
}

export const hook: Check = async ({ root, prefix, mend }) => {
  const text = await read({ root, prefix }, hookFilePath);
  const consequence = 'archives carry no GPU annotations';
  if (await hookStopsCrio({ root, prefix })) {
    const why = 'CRI-O reads this folder, and does not start with a hook of podman';
    return text === undefined
      ? [ok('hook', `none: ${why}; ${consequence}`)]
      : [fail('hook', `${hookFilePath}: ${why}`, `${configure} again: it removes the file`)];
  }
  if (text === undefined) {
    return [warn('hook', `${hookFilePath}: missing; ${consequence}`, configure)];
  }
  try {
    assertHookFile(text);
  } catch (error) {
    const reason = (error as Error).message;
    const hint = `podman starts no container with this file: ${configure}`;
    return [fail('hook', `${hookFilePath}: not valid: ${reason}`, hint)];
  }
  const program = precreateProgram(prefix);
  if (!(await isAllowed(join(root, program), constants.R_OK))) {
    return [warn('hook', `${program}: cannot be read; ${consequence}`, mend.reinstall)];
  }
  const { hook: expected } = await readPackage({ root, prefix });
  return isOld(text, expected)
    ? [
        warn(
          'hook',
          `${hookFilePath}: differs from the hook of this installation`,
          `${configure} again`,
        ),
      ]
    : [ok('hook', hookFilePath)];
};

export const folders: Check = async ({ root }) => {
  let file: ConfigFile;
  try {
    file = await readConfig(join(root, 'etc/kfd-checkpoint/config.json'));
  } catch (error) {
    const known: KfdError = asKfdError(error, 'config.json');
    return [
      fail(
        'configuration',
        known.message,
        known.hint ?? `run "sudoedit /etc/kfd-checkpoint/config.json"`,
      ),
    ];
  }
  const { config, unknownOptions } = file;
  const findings = [
    unknownOptions.length === 0
      ? ok('configuration', 'valid')
      : warn(
          'configuration',
          `options without effect, unknown to this release: ${unknownOptions.join(', ')}`,
          'correct or remove them',
        ),
  ];
  for (const folder of [runFolder, config.log_dir]) {
    const existing = await existingAncestor(join(root, folder));
    findings.push(
      (await isAllowed(existing, constants.W_OK))
        ? ok('folder', folder)
        : fail(
            'folder',
            `${folder}: cannot be written`,
            'run "sudo kfd-checkpoint check", or change log_dir in /etc/kfd-checkpoint/config.json',
          ),
    );
  }
  return findings;
};

/** The folder itself, or its nearest ancestor that exists. */
async function existingAncestor(path: string): Promise<string> {
  let folder = path;
  while (folder !== dirname(folder) && !(await isAllowed(folder, constants.F_OK))) {
    folder = dirname(folder);
  }
  return folder;
}

async function isAllowed(path: string, mode: number): Promise<boolean> {
  return access(path, mode).then(
    () => true,
    () => false,
  );
}
