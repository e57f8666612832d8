/** Plugins of rollup for the bundles. */

import { readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import type { Plugin } from '@rollup/wasm-node';
import { packageOf } from './notices.js';
import { dist } from './places.js';

interface StandIn {
  /** The importing package, and the import. */
  readonly asker: string;
  readonly module: RegExp;
  /** CommonJS. */
  readonly code: string;
}

/**
 * Modules that dependencies import and never use here. They cost a quarter of the instructions for loading the session,
 * not counting Node.js itself (callgrind, Node.js 20).
 */
const standIns: readonly StandIn[] = [
  {
    // The process writes its log lines itself. Transports need threads and files.
    asker: 'pino',
    module: /\/transport$/,
    code: 'module.exports = () => { throw new Error("pino: an installation has no transports"); };',
  },
  {
    // Flushes lines of threads at exit. These programs have no threads in JavaScript.
    asker: 'pino',
    module: /^worker_threads$/,
    code: 'exports.isMainThread = true;',
  },
  {
    asker: 'sonic-boom',
    module: /^assert$/,
    code: 'module.exports = (truth, message) => { if (!truth) throw new Error(message); };',
  },
];

/** Replaces modules by the stand-ins. */
export function slim(): Plugin {
  const path = (index: number) => join(dist, `stand-in-${index}.js`); // of no file
  return {
    name: 'slim',
    resolveId(source, importer) {
      const asker = importer === undefined ? undefined : packageOf(importer)?.name;
      const index = standIns.findIndex((one) => one.asker === asker && one.module.test(source));
      return index === -1 ? null : path(index);
    },
    load: (id) => standIns.find((_, index) => path(index) === id)?.code ?? null,
  };
}

/** Has the module `stages` in the place of src/stages.ts: the test build's, at whose points programs can be held. */
export function heldAt(stages: string): Plugin {
  const empty = join(dist, 'src/stages.js');
  return { name: 'held-at', load: (id) => (id === empty ? readFileSync(stages, 'utf8') : null) };
}

/**
 * Leaves out calls of src/stages.ts. Rollup itself keeps those in a `try`. An empty statement stays: the call may be
 * all that an `if` has.
 */
export function withoutStages(): Plugin {
  return {
    name: 'without-stages',
    transform: (code, id) =>
      packageOf(id) === undefined
        ? { code: code.replace(/^ *stage\('[a-z-]+', [^()]+\);\n/gm, ';\n'), map: null }
        : null,
  };
}

/** JSON files that dependencies import, as CommonJS modules. */
export function json(): Plugin {
  return {
    name: 'json',
    transform: (code, id) =>
      id.endsWith('.json') ? { code: `module.exports = ${code};`, map: null } : null,
  };
}

/** `import.meta.url` is the place of the module, not of the program that it is part of. */
export function modulePlaces(program: string): Plugin {
  return {
    name: 'module-places',
    resolveImportMeta(property, { moduleId }) {
      if (property !== 'url') return null;
      const path = JSON.stringify(relative(dirname(join(dist, program)), moduleId));
      return `require('node:url').pathToFileURL(require('node:path').join(__dirname, ${path})).href`;
    },
  };
}
