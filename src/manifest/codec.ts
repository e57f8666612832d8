/** Text of a manifest to checked document and back. No files here. */

import * as v from 'valibot';
import { KfdError } from '../errors.js';
import { inconsistencies } from './consistency.js';
import { manifestName } from './names.js';
import { type Manifest, manifestLimits, manifestSchema } from './schema.js';
import { sealOf } from './seal.js';

const corruptHint = 'the image was damaged or changed after the checkpoint; use another copy';
/** Problems listed in full in `details.problems`; only this many in the message. */
const problemsShown = 5;

/**
 * The sealed text of a manifest: one line per member, one per array element, `seal` last. Throws E_INTERNAL for an
 * invalid document: no unreadable manifest is written.
 */
export function encodeManifest(manifest: Manifest): string {
  const problems = problemsOf(manifest);
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
 * Parses and checks the text of a manifest: size, JSON, version, seal, shape, consistency.
 * Throws E_IMAGE_CORRUPT with all problems in `details.problems`, E_IMAGE_VERSION for a newer one.
 */
export function decodeManifest(text: string, subject = manifestName): Manifest {
  if (text.length > manifestLimits.fileBytes) {
    throw corrupt(subject, [`larger than ${manifestLimits.fileBytes} bytes`]);
  }
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw corrupt(subject, ['not complete JSON'], error);
  }
  if (json === null || typeof json !== 'object' || Array.isArray(json)) {
    throw corrupt(subject, ['not a JSON object']);
  }
  const { seal, ...document } = json as Record<string, unknown>;
  const version = document['schema_version'];
  if (typeof version === 'number' && Number.isInteger(version) && version > 1) {
    throw new KfdError('E_IMAGE_VERSION', `${subject}: schema version ${version} is newer than 1`, {
      hint: 'use the release of kfd-checkpoint that wrote it, or a later one',
    });
  }
  // The shape is checked first: hashing walks the document, which may be hostile in depth or size.
  const shape = v.safeParse(manifestSchema, document);
  if (!shape.success) throw corrupt(subject, shapeProblems(shape.issues));
  if (seal !== sealOf(document)) {
    throw corrupt(subject, [
      seal === undefined ? 'the seal is missing' : 'the seal does not match',
    ]);
  }
  const problems = inconsistencies(shape.output);
  if (problems.length > 0) throw corrupt(subject, problems);
  return shape.output;
}

function problemsOf(document: unknown): string[] {
  const shape = v.safeParse(manifestSchema, document);
  return shape.success ? inconsistencies(shape.output) : shapeProblems(shape.issues);
}

function shapeProblems(issues: readonly v.BaseIssue<unknown>[]): string[] {
  return issues.map((issue) => `${v.getDotPath(issue) ?? 'manifest'}: ${issue.message}`);
}

function corrupt(subject: string, problems: readonly string[], cause?: unknown): KfdError {
  const more =
    problems.length > problemsShown ? `; and ${problems.length - problemsShown} more` : '';
  const printable = problems
    .slice(0, 100)
    .map((text) => text.slice(0, 200).replace(/\p{C}/gu, '?'));
  const message = `${subject}: ${printable.slice(0, problemsShown).join('; ')}${more}`;
  return new KfdError('E_IMAGE_CORRUPT', message, {
    hint: corruptHint,
    cause,
    details: { problems: printable },
  });
}
