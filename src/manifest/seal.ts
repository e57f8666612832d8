/** The seal: sha256 over the canonical JSON of the manifest without its `seal` member. */

import { createHash } from 'node:crypto';

/**
 * Gives `write` the parts of the canonical JSON: the keys of every object in code-unit order and no white space,
 * numbers and strings as `JSON.stringify` writes them (for such values this is RFC 8785).
 */
function writeCanonical(value: unknown, write: (part: string) => void): void {
  if (value === null || typeof value !== 'object') {
    write(JSON.stringify(value));
    return;
  }
  let separator = '';
  const next = () => {
    write(separator);
    separator = ',';
  };
  if (Array.isArray(value)) {
    write('[');
    for (const item of value) {
      next();
      writeCanonical(item, write);
    }
    write(']');
    return;
  }
  write('{');
  for (const key of Object.keys(value).sort()) {
    const member = value[key as keyof object] as unknown;
    if (member === undefined) continue;
    next();
    write(`${JSON.stringify(key)}:`);
    writeCanonical(member, write);
  }
  write('}');
}

/** The canonical JSON of a value. */
export function canonicalJson(value: unknown): string {
  const parts: string[] = [];
  writeCanonical(value, (part) => parts.push(part));
  return parts.join('');
}

/** The seal of a document without its `seal` member: 64 lower-case hex digits. */
export function sealOf(document: object): string {
  const hash = createHash('sha256');
  // Not the whole text at once: it can be as large as the manifest.
  let waiting = '';
  writeCanonical(document, (part) => {
    waiting += part;
    if (waiting.length < 1 << 16) return;
    hash.update(waiting, 'utf8');
    waiting = '';
  });
  return hash.update(waiting, 'utf8').digest('hex');
}
