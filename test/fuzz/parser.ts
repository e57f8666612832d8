/** What the fuzzers need to know of a parser, and mutations of its inputs. */

import { type ErrorCode, KfdError } from '../../src/errors.js';

export type Random = (below: number) => number;

export interface Parser {
  readonly name: string;
  readonly seeds: readonly Buffer[];
  /** Words of the format: mutations with these stay closer to it than random bytes do. */
  readonly tokens: readonly string[];
  /** Parses, and throws when a promise of the parser is broken. A refusal of the input breaks none. */
  run(input: Buffer): void | Promise<void>;
}

/** The result of `parse`, or undefined when it refuses with one of `codes`. Throws any other error. */
export function unlessRefused<T>(codes: readonly ErrorCode[], parse: () => T): T | undefined {
  try {
    return parse();
  } catch (error) {
    if (error instanceof KfdError && codes.includes(error.code)) return undefined;
    throw error;
  }
}

/** The same for a parser that throws SyntaxError, of JSON. */
export function unlessSyntax<T>(parse: () => T): T | undefined {
  try {
    return parse();
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

const numbers = [0, 1, 7, 8, 0x7f, 0x80, 0xff, 0x7fffffff, 0x80000000, 0xffffffff];

/** One input: a seed after a few changes of bytes, words, numbers and parts. */
export function mutantOf({ seeds, tokens }: Parser, random: Random): Buffer {
  const seed = () => seeds[random(seeds.length)] as Buffer;
  let bytes: Buffer = Buffer.from(seed());
  for (let change = random(5); change > 0; change--) {
    const at = random(bytes.length + 1);
    const to = Math.min(bytes.length, at + random(random(8) === 0 ? 600 : 12));
    const around = (middle: Buffer) =>
      Buffer.concat([bytes.subarray(0, at), middle, bytes.subarray(to)]);
    switch (random(8)) {
      case 0:
        if (at < bytes.length) bytes[at] = random(256);
        break;
      case 1:
        bytes = around(Buffer.alloc(0));
        break;
      case 2:
        bytes = around(Buffer.concat([bytes.subarray(at, to), bytes.subarray(at, to)]));
        break;
      case 3:
        if (at + 4 <= bytes.length) bytes.writeUInt32LE(numbers[random(numbers.length)] ?? 0, at);
        break;
      case 4: {
        const other = seed();
        bytes = Buffer.concat([bytes.subarray(0, at), other.subarray(random(other.length + 1))]);
        break;
      }
      case 5:
        bytes = bytes.subarray(0, at);
        break;
      default:
        bytes = around(Buffer.from(tokens[random(Math.max(1, tokens.length))] ?? '\0', 'latin1'));
    }
  }
  return bytes;
}

/** Tokens of JSON documents. */
export const json = [
  '{',
  '}',
  '[',
  ']',
  ',',
  ':',
  '"',
  '\\',
  'null',
  '0',
  '1e999',
  '-1',
  '{}',
  '"__proto__":{},',
];

export const texts = (...all: string[]) => all.map((text) => Buffer.from(text));
