/** The edits of `configure containerd`, planned before anything is written. */

import { blockProblems, defaultConfPath } from '../criu/default-conf.js';
import {
  containerdConfigPath,
  dropInPath,
  dropInPattern,
  importsDropIn,
  parseContainerdConfig,
  runtimeText,
} from '../runtime/containerd-config.js';
import { copies, noCopies, type Plan, wholePackage } from './changes.js';
import { type Roots, read, readUtf8 } from './roots.js';

/** For this major release of containerd. Throws as planConfigure, and E_CONFIG when its own file is not TOML. */
export async function planContainerd(roots: Roots, major: number): Promise<Plan> {
  const parts = await wholePackage(roots);
  const main = parseContainerdConfig(await readUtf8(roots, containerdConfigPath));
  const before = await read(roots, dropInPath);
  const { dropIn, lines } = runtimeText(main, major, roots.prefix);
  const notes: string[] = [];
  if (lines !== undefined) {
    notes.push(
      `${containerdConfigPath} has settings for Kubernetes. A drop-in would replace them, ` +
        `so add these lines to the file:\n\n${lines}`,
    );
  } else if (!importsDropIn(main)) {
    notes.push(
      `containerd does not read ${dropInPath} yet. ` +
        `Add this line to ${containerdConfigPath}, above its first table:\n\n` +
        `imports = ["${dropInPattern}"]\n`,
    );
  }
  return {
    changes: [...(await copies(roots, parts)), { path: dropInPath, before, after: dropIn }],
    notes,
  };
}

/** Undoes it. The files that CRIU loads stay while the configuration of podman's CRIU names them. */
export async function planUndoContainerd(roots: Roots): Promise<Plan> {
  const before = await read(roots, dropInPath);
  const conf = (await read(roots, defaultConfPath)) ?? '';
  const stillNeeded = blockProblems(conf).length === 0;
  const changes = [
    { path: dropInPath, before, after: undefined },
    ...(stillNeeded ? [] : await noCopies(roots)),
  ];
  return { changes, notes: [] };
}
