/** Text of a manifest to checked document and back. No files here. */

import { KfdError } from '../errors.js';
import { inconsistencies } from './consistency.js';
import { manifestName } from './names.js';
import { scanFault } from './scan.js';
import { type Manifest, manifestLimits } from './schema.js';
import { sealOf } from './seal.js';
import { asManifest, shapeFaults } from './shape.js';

const corruptHint = 'the image was damaged or changed after the checkpoint; use another copy';
/** Of all problems this many are in `details.problems`, and in the message. */
const problemsKept = 100;
const problemsShown = 5;

/**
 * The sealed text of a manifest: one line per member, one per array element, `seal` last. Throws E_INTERNAL for an
 * invalid document: no unreadable manifest is written.
 */
export function encodeManifest(manifest: Manifest): string {
  const faults = shapeFaults(manifest);
  const problems = faults.length > 0 ? faults : inconsistencies(manifest, problemsKept);
  if (problems.length > 0) {
    throw new KfdError(
      'E_INTERNAL',
      `${manifestName}: ${problems.slice(0, problemsShown).join('; ')}`,
      {
        details: { problems },
      },
    );
  }
  const lines = Object.entries({ ...manifest, seal: sealOf(manifest) }).map(
    ([key, value]) => `  ${JSON.stringify(key)}: ${member(value)}`,
  );
  return `{\n${lines.join(',\n')}\n}\n`;
}

function member(value: unknown): string {
  if (!Array.isArray(value) || value.length === 0) return JSON.stringify(value);
  return `[\n${value.map((item) => `    ${JSON.stringify(item)}`).join(',\n')}\n  ]`;
}

/**
 * Parses and checks a manifest: size, UTF-8, JSON, version, seal, shape, consistency. Memory is bounded by a small
 * multiple of the text. Throws E_IMAGE_CORRUPT with the problems in `details.problems`, E_IMAGE_VERSION for a newer
 * one.
 */
export function decodeManifest(bytes: Uint8Array, subject = manifestName): Manifest {
  const document = parsed(bytes, subject);
  const { seal, ...content } = document;
  const version = content['schema_version'];
  if (typeof version === 'number' && Number.isInteger(version) && version > 1) {
    throw new KfdError('E_IMAGE_VERSION', `${subject}: schema version ${version} is newer than 1`, {
      hint: 'use the release of kfd-checkpoint that wrote it, or a later one',
    });
  }
  // The shape is checked first: hashing walks the document, which may be hostile.
  const faults = shapeFaults(content);
  if (faults.length > 0) throw corrupt(subject, faults);
  if (seal !== sealOf(content)) {
    throw corrupt(subject, [
      seal === undefined ? 'the seal is missing' : 'the seal does not match',
    ]);
  }
  const manifest = asManifest(content);
  const problems = inconsistencies(manifest, problemsKept);
  if (problems.length > 0) throw corrupt(subject, problems);
  return manifest;
}

function parsed(bytes: Uint8Array, subject: string): Record<string, unknown> {
  if (bytes.length > manifestLimits.fileBytes) {
    throw corrupt(subject, [`larger than ${manifestLimits.fileBytes} bytes`]);
  }
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (error) {
    throw corrupt(subject, ['not UTF-8'], error);
  }
  const fault = scanFault(text);
  if (fault !== undefined) throw corrupt(subject, [fault]);
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw corrupt(subject, ['not complete JSON'], error);
  }
  if (json === null || typeof json !== 'object' || Array.isArray(json)) {
    throw corrupt(subject, ['not a JSON object']);
  }
  return json as Record<string, unknown>;
}

function corrupt(subject: string, problems: readonly string[], cause?: unknown): KfdError {
  const others = problems.length - problemsShown;
  const atLeast = problems.length === problemsKept ? 'at least ' : '';
  const more = others > 0 ? `; and ${atLeast}${others} more` : '';
  const printable = problems
    .slice(0, problemsKept)
    .map((text) => text.slice(0, 200).replace(/\p{C}/gu, '?'));
  const message = `${subject}: ${printable.slice(0, problemsShown).join('; ')}${more}`;
  return new KfdError('E_IMAGE_CORRUPT', message, {
    hint: corruptHint,
    cause,
    details: { problems: printable },
  });
}
