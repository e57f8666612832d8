/** The files of a system outside containers, and what is other than before. */

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { run } from '../e2e/support/command.js';

/** What is known of each path: type, permissions, owner; of a file also its contents or the time of its last change. */
export type Listing = ReadonlyMap<string, string>;

/** Records, caches and sockets of other programs, which change all the time. */
const others = [
  ...['/run/containers', '/run/crun', '/run/runc', '/run/libpod', '/run/netns', '/run/lock'],
  ...['/run/dbus', '/run/lab', '/run/systemd', '/run/udev'],
  ...['/run/credentials', '/run/log', '/run/podman', '/var/lib/cni', '/var/lib/systemd'],
  ...['/var/cache', '/var/lib/apt', '/var/lib/containers', '/var/lib/dpkg'],
  ...['/var/log/apt', '/var/log/dpkg.log', '/var/log/journal', '/var/tmp/systemd-private-*'],
];

/** All of /etc, /run, /usr and /var but that. Of folders the time does not count: files may come and go in them. */
export async function listFiles(): Promise<Listing> {
  const pruned = others.flatMap((path) => ['-path', path, '-prune', '-o']);
  const common = '%p\\t%y %m %U:%G';
  const shown = [
    '-type',
    'd',
    '-printf',
    `${common}\\n`,
    '-o',
    '-printf',
    `${common} %s %C@ %l\\n`,
  ];
  const text = await run('find', '/etc', '/run', '/usr', '/var', '-xdev', ...pruned, ...shown);
  return parseListing(text, (path) => readFileSync(path));
}

/** `text`: a line for each path, its facts after a tab. A file of /etc may be written anew with the same contents. */
export function parseListing(text: string, read: (path: string) => Buffer): Listing {
  const listing = new Map<string, string>();
  for (const line of text.split('\n')) {
    const [path = '', facts = ''] = line.split('\t');
    const [type = '', mode = '', owner = ''] = facts.split(' ');
    const isCompared = type === 'f' && path.startsWith('/etc/');
    const contents = () => createHash('sha256').update(read(path)).digest('hex');
    listing.set(path, isCompared ? [type, mode, owner, contents()].join(' ') : facts);
  }
  return listing;
}

/** A line for each path that came, went or is other than before. */
export function differences(before: Listing, after: Listing): string[] {
  const gone = [...before].filter(([path]) => !after.has(path));
  const come = [...after].filter(([path]) => !before.has(path));
  const other = [...after].filter(([path, facts]) => (before.get(path) ?? facts) !== facts);
  return [
    ...gone.map(([path]) => `gone: ${path}`),
    ...come.map(([path, facts]) => `left: ${path} (${facts})`),
    ...other.map(([path, facts]) => `changed: ${path} (${before.get(path)}; now ${facts})`),
  ];
}
