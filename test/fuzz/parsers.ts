/** All parsers that have a fuzzer in TypeScript. */

import { binaryParsers } from './binary-parsers.js';
import { documentParsers } from './document-parsers.js';
import { fileParsers } from './file-parsers.js';
import { foreignParsers } from './foreign-parsers.js';
import type { Parser } from './parser.js';

export const parsers: readonly Parser[] = [
  ...documentParsers,
  ...foreignParsers,
  ...binaryParsers,
  ...fileParsers,
];
