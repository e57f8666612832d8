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
import { versionOf } from '../../runtime/versions.js';
import { type Roots, readUtf8 } from '../roots.js';
import { type Check, type Finding, fail, ok, warn } from './finding.js';

const configure = 'run "kfd-checkpoint configure containerd"';
/** PATH of services (systemd.exec(5)). containerd looks there for the shim of a runtime's name. */
const servicePath = ['usr/local/sbin', 'usr/local/bin', 'usr/sbin', 'usr/bin', 'sbin', 'bin'];

export const containerd: Check = async ({ root, prefix, run }) => {
  const version = await versionOf(run, 'containerd');
  const release =
    version === undefined
      ? warn('containerd', 'not in PATH', 'install containerd 1.7 or 2.1')
      : version.major < 1 || (version.major === 1 && version.minor < 7)
        ? warn(
            'containerd',
            `${version.text}: older than any tested`,
            'install containerd 1.7 or 2.1',
          )
        : ok('containerd', version.text);
  const roots = { root, prefix };
  return [release, ...(await runtimeFindings(roots)), await shimFinding(roots)];
};

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
    return [fail(name, message, 'remove BinaryName from the runtime, so that runc is used')];
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
    return warn(name, message, `${configure}: it prints the lines for the file`);
  }
  if (!importsDropIn(main)) {
    const hint = `add imports = ["${dropInPattern}"] to ${containerdConfigPath}, restart containerd`;
    return warn(name, `${dropInPath}: not read by containerd; pods cannot use it, ctr can`, hint);
  }
  return ok(name, inFile(used, dropInPath));
}

function inFile({ name }: Runtime, path: string): string {
  return `${name}, in ${path}`;
}

async function shimFinding({ root, prefix }: Roots): Promise<Finding> {
  const program = shimProgram(prefix);
  try {
    await access(join(root, program), constants.X_OK);
  } catch {
    return fail(
      'shim',
      `${program}: not executable: no container can start`,
      'install the package again',
    );
  }
  // Not followed: a link of another root folder leads elsewhere.
  const found = await Promise.all(
    servicePath.map((folder) => exists(join(root, folder, basename(program)))),
  );
  if (found.includes(true)) return ok('shim', program);
  const message = `${basename(program)}: not in ${servicePath.map((folder) => `/${folder}`).join(':')}`;
  return warn('shim', `${message}; ctr does not find it`, `link it: ln -s ${program} /usr/bin`);
}

async function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}
