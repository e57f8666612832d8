/** The seal: sha256 over the canonical JSON of the manifest without its `seal` member. */

import { createHash } from 'node:crypto';

/**
 * JSON with the keys of every object in code-unit order and no white space, numbers and strings as
 * `JSON.stringify` writes them (for such values this is RFC 8785).
 */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (value !== null && typeof value === 'object') {
    const members = Object.entries(value)
      .filter(([, member]) => member !== undefined)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, member]) => `${JSON.stringify(key)}:${canonicalJson(member)}`);
    return `{${members.join(',')}}`;
  }
  return JSON.stringify(value);
}

/** The seal of a document without its `seal` member: 64 lower-case hex digits. */
export function sealOf(document: object): string {
  return createHash('sha256').update(canonicalJson(document), 'utf8').digest('hex');
}
