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
import { copies, type FileChange, noCopies, wholePackage } from './changes.js';
import { type Place, read } from './place.js';

export interface ContainerdPlan {
  readonly changes: readonly FileChange[];
  /** What the user has to do: sentences and lines of configuration. */
  readonly notes: readonly string[];
}

/** For a containerd of this major release. Throws as planConfigure, and E_CONFIG when its own file is not TOML. */
export async function planContainerd(place: Place, major: number): Promise<ContainerdPlan> {
  const parts = await wholePackage(place);
  const main = parseContainerdConfig(asUtf8(await read(place, containerdConfigPath)));
  const before = await read(place, dropInPath);
  const { dropIn, lines } = runtimeText(main, major, place.prefix);
  const notes: string[] = [];
  if (lines !== undefined) {
    notes.push(
      `${containerdConfigPath} has settings for Kubernetes. A drop-in would replace them, so add these lines to the file:\n\n${lines}`,
    );
  } else if (!importsDropIn(main)) {
    notes.push(
      `containerd does not read ${dropInPath} yet. Add this line to ${containerdConfigPath}, above its first table:\n\nimports = ["${dropInPattern}"]\n`,
    );
  }
  return {
    changes: [...(await copies(place, parts)), { path: dropInPath, before, after: dropIn }],
    notes,
  };
}

/** Undoes it. The files that CRIU loads stay while the configuration of podman's CRIU names them. */
export async function planUndoContainerd(place: Place): Promise<ContainerdPlan> {
  const before = await read(place, dropInPath);
  const conf = (await read(place, defaultConfPath)) ?? '';
  const stillNeeded = blockProblems(conf).length === 0;
  const changes = [
    { path: dropInPath, before, after: undefined },
    ...(stillNeeded ? [] : await noCopies(place)),
  ];
  return { changes, notes: [] };
}

/** Text as `read` returns it. A byte order mark is removed. */
function asUtf8(latin1: string | undefined): string | undefined {
  return latin1 === undefined ? undefined : new TextDecoder().decode(Buffer.from(latin1, 'latin1'));
}
