/** Checks of our own installation: CRIU's configuration, the plugin, the hook, our folders. */

import { access, constants, readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type Config, loadConfig } from '../../config.js';
import { blockProblems, criuSettings, defaultConfPath } from '../../criu/default-conf.js';
import { asKfdError, isMissing, type KfdError } from '../../errors.js';
import { readTextIfAny } from '../../os/files.js';
import { hookFilePath, hookProgram } from '../../runtime/hook-file.js';
import { pluginName } from '../changes.js';
import { type Check, type Finding, fail, ok, warn } from './finding.js';

const configure = 'run "kfd-checkpoint configure"';

export const criuConfiguration: Check = async ({ root, prefix }) => {
  const settings = criuSettings(prefix);
  const text = await readTextIfAny(join(root, defaultConfPath));
  const problems = blockProblems(text ?? '', settings);
  const findings: Finding[] = [
    problems.length === 0
      ? ok('default.conf', defaultConfPath)
      : fail('default.conf', `${defaultConfPath}: ${problems.join('; ')}`, configure),
  ];
  findings.push(await libdirFinding(join(root, settings.libdir), settings.libdir));
  const isRunnable = await isAllowed(join(root, settings.actionScript), constants.X_OK);
  findings.push(
    isRunnable
      ? ok('action script', settings.actionScript)
      : fail(
          'action script',
          `${settings.actionScript}: not executable`,
          'install the package again',
        ),
  );
  return findings;
};

/** CRIU loads every .so in the folder; two owners of /dev/kfd would fight. */
async function libdirFinding(folder: string, shown: string): Promise<Finding> {
  let plugins: string[];
  try {
    plugins = (await readdir(folder)).filter((name) => name.endsWith('.so'));
  } catch (error) {
    const why = isMissing(error) ? 'not there: every dump and restore fails' : String(error);
    return fail('plugin', `${shown}: ${why}`, 'install the package again');
  }
  const foreign = plugins.filter((name) => name !== pluginName);
  if (!plugins.includes(pluginName)) {
    return fail('plugin', `${shown}: ${pluginName} is not there`, 'install the package again');
  }
  if (foreign.includes('amdgpu_plugin.so')) {
    const hint = `remove ${shown}/amdgpu_plugin.so: it claims the same devices as ours`;
    return fail('plugin', `${shown}: amdgpu_plugin.so is there too`, hint);
  }
  if (foreign.length > 0) {
    const hint = `keep only ${pluginName} in ${shown}`;
    return warn('plugin', `${shown}: other plugins: ${foreign.join(', ')}`, hint);
  }
  return ok('plugin', `${shown}/${pluginName}`);
}

export const hook: Check = async ({ root }) => {
  const text = await readTextIfAny(join(root, hookFilePath));
  if (text === undefined) {
    return [
      warn('hook', `${hookFilePath}: not there; archives carry no GPU annotations`, configure),
    ];
  }
  let program: string;
  try {
    program = hookProgram(text);
  } catch (error) {
    const reason = (error as Error).message;
    const hint = `podman starts no container with it: ${configure}`;
    return [fail('hook', `${hookFilePath}: not valid: ${reason}`, hint)];
  }
  return (await isAllowed(join(root, program), constants.X_OK))
    ? [ok('hook', hookFilePath)]
    : [warn('hook', `${program}: not executable; podman skips the hook`, configure)];
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
  for (const folder of [config.run_dir, config.log_dir]) {
    const place = await existingAncestor(join(root, folder));
    findings.push(
      (await isAllowed(place, constants.W_OK))
        ? ok('folder', folder)
        : fail(
            'folder',
            `${folder}: cannot be written`,
            'run as root, or change the configuration',
          ),
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
