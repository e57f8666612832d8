/** The text of a container engine's JSON document, before anything parses it. */

import { isUtf8 } from 'node:buffer';
import { KfdError } from '../errors.js';

/** A parser takes memory or stack for each level and each value. */
const limits = { depth: 100, values: 100_000 } as const;

/**
 * Throws E_IMAGE_CORRUPT for bytes that are not UTF-8, for deep nesting and for too many values. Other damage is not
 * looked for.
 */
export function documentText(name: string, bytes: Buffer): string;
export function documentText(name: string, bytes: Buffer | undefined): string | undefined;
export function documentText(name: string, bytes: Buffer | undefined): string | undefined {
  if (bytes === undefined) return undefined;
  if (!isUtf8(bytes)) throw new KfdError('E_IMAGE_CORRUPT', `${name}: not UTF-8`);
  const excess = excessOf(bytes);
  if (excess !== undefined) throw new KfdError('E_IMAGE_CORRUPT', `${name}: ${excess}`);
  return bytes.toString('utf8');
}

function excessOf(bytes: Buffer): string | undefined {
  let depth = 0;
  let values = 0;
  let isText = false;
  for (let at = 0; at < bytes.length; at++) {
    const char = bytes[at];
    if (isText) {
      if (char === backslash) at++;
      else if (char === quote) isText = false;
    } else if (char === quote) isText = true;
    else if (char === openBrace || char === openBracket) {
      if (++depth > limits.depth) return `more than ${limits.depth} levels of nesting`;
    } else if (char === closeBrace || char === closeBracket) depth--;
    else if (char === comma && ++values > limits.values) {
      return `more than ${limits.values} values`;
    }
  }
  return undefined;
}

const [quote, backslash, comma] = [0x22, 0x5c, 0x2c];
const [openBrace, closeBrace, openBracket, closeBracket] = [0x7b, 0x7d, 0x5b, 0x5d];
