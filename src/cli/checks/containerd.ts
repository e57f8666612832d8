/** Checks of a host that is set up for containerd: its release, its configuration, our shim. */

import { access, constants, lstat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { asKfdError } from '../../errors.js';
import {
  type ContainerdConfig,
  containerdConfigPath,
  dropInPath,
  dropInPattern,
  importsDropIn,
  parseContainerdConfig,
  type Runtime,
  shimProgram,
  startsOurShim,
} from '../../runtime/containerd-config.js';
import { servicePath } from '../../runtime/service-path.js';
import { askVersion, isOlder } from '../../runtime/versions.js';
import { type Roots, readUtf8 } from '../roots.js';
import { type Check, type CheckContext, type Finding, fail, ok, warn } from './finding.js';

const configure = 'run "kfd-checkpoint configure containerd"';

export const containerd: Check = async (context) => [
  await releaseFinding(context),
  ...(await runtimeFindings(context)),
  await shimFinding(context),
];

async function releaseFinding({ run, mend }: CheckContext): Promise<Finding> {
  const name = 'containerd';
  const version = await askVersion(run, name);
  const hint = mend.install('containerd', '1.7, or 2.1 to 2.3');
  if (typeof version === 'string') return warn(name, version, hint);
  if (isOlder(version, '1.7')) return warn(name, `${version.text}: older than any tested`, hint);
  if (!/^(1\.7|2\.[1-3])\./.test(`${version.text}.`)) {
    return warn(name, `${version.text}: only 1.7 and 2.1 to 2.3 were tried`, hint);
  }
  return ok(name, version.text);
}

/** The runtime for Kubernetes. `ctr` and nerdctl need none. */
async function runtimeFindings(roots: Roots): Promise<Finding[]> {
  const name = 'runtime';
  let main: ContainerdConfig;
  let dropIn: ContainerdConfig;
  try {
    const [ownText, dropInText] = await Promise.all([
      readUtf8(roots, containerdConfigPath),
      readUtf8(roots, dropInPath),
    ]);
    main = parseContainerdConfig(ownText);
    dropIn = parseContainerdConfig(dropInText, dropInPath);
  } catch (error) {
    const known = asKfdError(error, 'containerd');
    return [fail(name, known.message, known.hint ?? configure)];
  }
  const ours = ({ runtimes }: ContainerdConfig) =>
    runtimes.find((one) => startsOurShim(one, roots.prefix));
  const [own, added] = [ours(main), ours(dropIn)];
  const used = own ?? added;
  if (used === undefined) {
    const message = `${dropInPath}: no runtime uses our shim; pods cannot be checkpointed`;
    return [warn(name, message, configure)];
  }
  const isCrun = used.binary !== undefined && basename(used.binary) === 'crun';
  if (isCrun) {
    const message = `${used.name}: ${used.binary}: containerd cannot restore what crun runs`;
    return [
      fail(name, message, 'remove BinaryName from the runtime, run "systemctl restart containerd"'),
    ];
  }
  return [
    own === undefined
      ? dropInFinding(main, dropIn, used)
      : ok(name, inFile(used, containerdConfigPath)),
  ];
}

function dropInFinding(main: ContainerdConfig, dropIn: ContainerdConfig, used: Runtime): Finding {
  const name = 'runtime';
  const replaced = dropIn.plugins.find((plugin) => main.plugins.includes(plugin));
  if (replaced !== undefined) {
    const message = `${dropInPath}: replaces the settings of ${replaced} in ${containerdConfigPath}`;
    return warn(name, message, 'run "kfd-checkpoint configure containerd --edit"');
  }
  if (!importsDropIn(main)) {
    const line = `imports = ["${dropInPattern}"]`;
    const hint = `add ${line} to ${containerdConfigPath}, run "systemctl restart containerd"`;
    return warn(name, `${dropInPath}: not read by containerd; pods cannot use it, ctr can`, hint);
  }
  return ok(name, inFile(used, dropInPath));
}

function inFile({ name }: Runtime, path: string): string {
  return `${name}, in ${path}`;
}

async function shimFinding({ root, prefix, mend }: CheckContext): Promise<Finding> {
  const program = shimProgram(prefix);
  try {
    await access(join(root, program), constants.X_OK);
  } catch {
    const message = `${program}: not executable: no container can start`;
    return fail('shim', message, mend.reinstall);
  }
  // Not followed: a link of another root folder leads elsewhere.
  const found = await Promise.all(
    servicePath.map((folder) => exists(join(root, folder, basename(program)))),
  );
  if (found.includes(true)) return ok('shim', program);
  const message = `${basename(program)}: not in ${servicePath.map((folder) => `/${folder}`).join(':')}`;
  return warn('shim', `${message}; ctr does not find it`, `run "ln -s ${program} /usr/bin"`);
}

async function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}
