/** What other readers find in an archive: Go's archive/tar, GNU tar and libarchive. */

import { execFileSync, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { repository } from '../../unit/paths.js';

/** A file with contents, by the name of the reader. */
export interface Found {
  readonly name: string;
  readonly sha256: string;
}

export interface Answer {
  readonly found: readonly Found[];
  /** The reader says that something is wrong with the archive. */
  readonly failed: boolean;
}

export const peerNames = ['go', 'gnu', 'libarchive'] as const;
export type Peer = (typeof peerNames)[number];

const goReader = join(repository, 'build/fuzz/go-reader');
const goSource = join(repository, 'test/fuzz/differential/reader.go');

let isBuilt = false;

/** The Debian packages that are missing for a comparison. */
export function missingPeers(): string[] {
  const needed = { go: 'golang-go', bsdtar: 'libarchive-tools', tar: 'tar', zstd: 'zstd' };
  const missing = Object.entries(needed).filter(
    ([command]) => spawnSync('sh', ['-c', `command -v ${command}`]).status !== 0,
  );
  return missing.map(([, name]) => name);
}

/** Go's answers for several archives. */
export function askGo(paths: readonly string[]): Answer[] {
  if (!isBuilt) {
    const env = { ...process.env, GO111MODULE: 'off' };
    execFileSync('go', ['build', '-o', goReader, goSource], { env });
    isBuilt = true;
  }
  const options = { input: `${paths.join('\n')}\n`, maxBuffer: 1 << 28 } as const;
  const lines = execFileSync(goReader, options).toString().trimEnd().split('\n');
  return lines.map((line) => {
    const { members, error } = JSON.parse(line) as {
      members: (Found & { type: string })[];
      error: string;
    };
    // podman writes contents for these types alone, and ends at unknown ones.
    const files = members.filter(({ type }) => type === '0' || type === '\0' || type === '7');
    return {
      found: files.map(({ name, sha256 }) => ({ name, sha256 })),
      failed: error !== '',
    };
  });
}

/** Each file is a digest, two spaces, "-", a line's end, its name and a zero. */
const gnuCommand = 'sha256sum; printf "%s\\0" "$TAR_FILENAME"';

export function askGnu(path: string): Answer {
  const args = ['-xf', path, `--to-command=${gnuCommand}`];
  const { stdout, status } = spawnSync('tar', args, { maxBuffer: 1 << 26 });
  const records = stdout.toString('latin1').split('\0').filter(Boolean);
  const found = records.map((record) => {
    const [digest = '', ...name] = record.split('  -\n');
    return { name: bytesAsText(name.join('  -\n')), sha256: digest };
  });
  return { found, failed: status !== 0 };
}

/** libarchive turns the archive into mtree's text, with names in which bytes are octal. */
export function askLibarchive(path: string): Answer {
  const options = '--options=mtree:!all,mtree:type,mtree:sha256';
  const args = ['-cf', '-', '--format=mtree', options, `@${path}`];
  const { stdout, status } = spawnSync('bsdtar', args, { maxBuffer: 1 << 26 });
  const found = stdout
    .toString('latin1')
    .split('\n')
    .flatMap((line) => {
      const match = /^(\S+) .*\bsha256digest=([0-9a-f]{64})/.exec(line);
      if (match === null || !line.includes('type=file')) return [];
      const name = bytesAsText(unescaped(match[1] as string)).replace(/^\.\//, '');
      return [{ name, sha256: match[2] as string }];
    });
  return { found, failed: status !== 0 };
}

function unescaped(name: string): string {
  return name.replace(/\\([0-7]{3})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 8)),
  );
}

function bytesAsText(latin1: string): string {
  return Buffer.from(latin1, 'latin1').toString('utf8');
}
