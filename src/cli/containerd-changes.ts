/** The edits of `configure containerd`, planned before anything is written. */

import { blockProblems, defaultConfPath } from '../criu/default-conf.js';
import {
  containerdConfigPath,
  dropInPath,
  importsDropIn,
  runtimeText,
} from '../runtime/containerd-config.js';
import { copies, type FileChange, noCopies, wholePackage } from './changes.js';
import { type Place, read } from './place.js';

export interface ContainerdPlan {
  readonly changes: readonly FileChange[];
  /** What is left to the user, sentences and lines of configuration. */
  readonly notes: readonly string[];
}

/** For a containerd of this major release. Throws as planConfigure. */
export async function planContainerd(place: Place, major: number): Promise<ContainerdPlan> {
  const parts = await wholePackage(place);
  const main = await read(place, containerdConfigPath);
  const before = await read(place, dropInPath);
  const { dropIn, lines } = runtimeText(main, major, place.prefix);
  const notes: string[] = [];
  if (lines !== undefined) {
    notes.push(
      `${containerdConfigPath} has settings for Kubernetes, which a file beside it would replace: add to it\n\n${lines}`,
    );
  } else if (!importsDropIn(main)) {
    notes.push(
      `containerd reads ${dropInPath} if ${containerdConfigPath} says, above its first table\n\nimports = ["/etc/containerd/conf.d/*.toml"]\n`,
    );
  }
  return {
    changes: [...(await copies(place, parts)), { path: dropInPath, before, after: dropIn }],
    notes,
  };
}

/** Takes it back. What CRIU loads stays where podman's CRIU is told of it. */
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
