/** Checks a document against the schema. */

import * as v from 'valibot';
import { type Manifest, manifestSchema } from './schema.js';

/** For each member a schema of an object that has this member alone. */
const members = Object.entries(manifestSchema.entries).map(
  ([name, schema]) => [name, v.strictObject({ [name]: schema })] as const,
);

/**
 * The first fault of each member as "<path>: <reason>"; empty for a document with the shape of a manifest. A member
 * is left at its first fault: a hostile one has millions, and each of them takes more memory than its text.
 */
export function shapeFaults(document: object): string[] {
  const known = Object.hasOwn;
  const unknown = Object.keys(document)
    .filter((name) => !known(manifestSchema.entries, name))
    .map((name) => `${name}: unknown member`);
  const faults = members.flatMap(([name, schema]) => {
    const alone = known(document, name) ? { [name]: document[name as keyof object] } : {};
    const shape = v.safeParse(schema, alone, { abortEarly: true });
    return (shape.issues ?? []).map((issue) => `${v.getDotPath(issue) ?? name}: ${issue.message}`);
  });
  return [...unknown, ...faults];
}

/** A document without faults. */
export function asManifest(document: object): Manifest {
  return document as Manifest;
}
