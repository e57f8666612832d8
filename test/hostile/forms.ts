/** The same bytes as an archive of each compression, and the arguments with which each verb reads an archive. */

import { execFileSync } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { ErrorCode } from '../../src/errors.js';
import { type RawEntry, rawTar } from '../unit/raw-tar.js';
import { hostOptions, soundFiles, written } from './sound.js';
import type { HostileInput } from './suite.js';

export type Form = 'plain' | 'gzip' | 'zstd';

/** Entries of a sound checkpoint, to be put into a hostile archive. */
export async function soundEntries(): Promise<RawEntry[]> {
  const files = Object.entries(await soundFiles());
  return [
    { name: 'checkpoint/', type: '5' },
    ...files.map(([name, data]) => ({ name, data: Buffer.from(data) })),
  ];
}

export function packed(tar: Buffer, form: Form): Buffer {
  if (form === 'gzip') return gzipSync(tar);
  if (form === 'plain') return tar;
  return execFileSync('zstd', ['-qc'], { input: tar, maxBuffer: 1 << 30 });
}

export type ReadingVerb = 'inspect' | 'verify' | 'check' | 'restore' | 'flatten' | 'checkpoint';

/** Arguments for a verb that reads the archive at `path` in `dir`. */
export async function readingArgs(verb: ReadingVerb, dir: string, path: string): Promise<string[]> {
  switch (verb) {
    case 'inspect':
    case 'verify':
      return [path];
    case 'check':
    case 'restore':
      return [...(await hostOptions(dir, 'moved')), path];
    case 'flatten':
      return [path, '--output', join(dir, 'flat.tar')];
    case 'checkpoint': {
      const run = join(dir, 'run');
      await mkdir(run);
      return ['--parent', path, '--run', run, 'job', '--export', join(dir, 'next.tar')];
    }
  }
}

/** A hostile archive that some verbs read. */
export interface Shape {
  readonly name: string;
  readonly make: (sound: RawEntry[]) => Buffer | RawEntry[];
  readonly says: RegExp;
  readonly status?: number;
  readonly code?: ErrorCode;
}

/** The shape in one form, for one verb. */
export function hostileArchive(shape: Shape, form: Form, verb: ReadingVerb): HostileInput {
  const { name, make, says, status = 5, code = 'E_IMAGE_CORRUPT' } = shape;
  return {
    name: `${name}, ${form}`,
    verb,
    status,
    code,
    says,
    args: async (dir) => {
      const made = make(await soundEntries());
      const tar = Buffer.isBuffer(made) ? made : rawTar(made);
      const path = await written(dir, 'job.tar', packed(tar, form));
      return readingArgs(verb, dir, path);
    },
  };
}
