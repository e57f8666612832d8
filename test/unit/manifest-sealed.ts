/** Manifests with a valid seal and with faults inside. */

import assert from 'node:assert/strict';
import { KfdError } from '../../src/errors.js';
import { decodeManifest } from '../../src/manifest/codec.js';
import { sealOf } from '../../src/manifest/seal.js';

/** A manifest whose seal is right, whatever is wrong inside. */
export function sealedText(document: object): string {
  return JSON.stringify({ ...document, seal: sealOf(document) });
}

export function problemsOf(document: object): string[] {
  try {
    decodeManifest(Buffer.from(sealedText(document)));
  } catch (error) {
    assert.ok(error instanceof KfdError);
    assert.equal(error.code, 'E_IMAGE_CORRUPT');
    return error.details?.['problems'] as string[];
  }
  return [];
}
