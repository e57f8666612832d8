/**
 * Card nodes in a container. AMD's CDI specification gives a container the card node of a GPU beside its render node.
 * A node that no process has open moves to the number of another host, like a render node.
 */

import { lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { ManifestGpu } from '../manifest/schema.js';
import { deviceId } from '../os/device-id.js';
import type { Host } from './host.js';

/** Device ids of the nodes in the process's `/dev/dri`. `proc`: the host's `/proc`. */
export function nodesOf(pid: number, proc = '/proc'): ReadonlySet<number> {
  const dev = join(proc, `${pid}`, 'root', 'dev');
  const folder = join(dev, 'dri');
  try {
    // An absolute link would lead out of the container.
    if (![dev, folder].every((path) => lstatSync(path).isDirectory())) return new Set();
    const infos = readdirSync(folder).map((name) => lstatSync(join(folder, name)));
    return new Set(infos.filter((info) => info.isCharacterDevice()).map(({ rdev }) => rdev));
  } catch {
    return new Set(); // the process has ended, or has no such folder
  }
}

/** The records of the host's GPUs, with the minor of each card node that is among `nodes`. */
export function withCards(host: Host, nodes: ReadonlySet<number>): ManifestGpu[] {
  return host.gpus.map(({ record, cardDevice }) =>
    cardDevice !== undefined && nodes.has(deviceId(cardDevice))
      ? { ...record, card_minor: cardDevice.minor }
      : record,
  );
}
