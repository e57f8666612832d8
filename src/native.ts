/** Loads the native addon: no other file does. */

import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Native } from './addon.js';
import { type ErrorCode, KfdError } from './errors.js';

export type * from './addon.js';

const root = join(dirname(fileURLToPath(import.meta.url)), '../..');
let loaded: Native | undefined;

/** Loads the addon on first use. Throws E_NATIVE with every place that was tried. */
export function native(): Native {
  if (loaded !== undefined) return loaded;
  const require = createRequire(import.meta.url);
  const problems: string[] = [];
  for (const place of ['lib', 'build/native']) {
    const path = join(root, place, 'kfd_checkpoint.node');
    try {
      loaded = require(path) as Native;
      return loaded;
    } catch (error) {
      problems.push((error as Error).message.split('\n')[0] ?? path);
    }
  }
  throw new KfdError('E_NATIVE', `native addon: ${problems.join('; ')}`, {
    hint: 'run "npm run build:native", or install the package for this machine again',
  });
}

const codes: Readonly<Record<string, ErrorCode>> = {
  KFD_IO: 'E_IO',
  KFD_CORRUPT: 'E_IMAGE_CORRUPT',
  KFD_UNSUPPORTED: 'E_UNSUPPORTED_STATE',
  KFD_PROTOCOL: 'E_PROTOCOL',
  KFD_GPU: 'E_GPU_IO',
  KFD_ENGINE: 'E_GPU_IO',
  KFD_CANCELLED: 'E_CANCELLED',
};

/** An error of the addon as a KfdError; `subject` starts the message. */
export function fromNative(error: unknown, subject: string): KfdError {
  if (error instanceof KfdError) return error;
  const name = error instanceof Error && 'code' in error ? String(error.code) : '';
  const message = error instanceof Error ? error.message : String(error);
  return new KfdError(codes[name] ?? 'E_INTERNAL', `${subject}: ${message}`, { cause: error });
}
