/** What our bundles need beside the usual plugins of rollup. */

import { dirname, join, relative } from 'node:path';
import type { Plugin } from '@rollup/wasm-node';
import { packageOf } from './notices.js';
import { dist } from './places.js';

interface StandIn {
  /** The package that asks, and what it asks for. */
  readonly asker: string;
  readonly module: RegExp;
  /** CommonJS. */
  readonly code: string;
}

/**
 * Modules that dependencies ask for and never use here. They are a quarter of the instructions that loading
 * the session takes beyond those of Node.js itself (callgrind, Node.js 20).
 */
const standIns: readonly StandIn[] = [
  {
    // Our log lines are written by the process itself; transports need threads and files of their own.
    asker: 'pino',
    module: /\/transport$/,
    code: 'module.exports = () => { throw new Error("pino: an installation has no transports"); };',
  },
  {
    // Whether to write at exit what a thread might have left: no program of ours has threads in JavaScript.
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

/** Puts the stand-ins in the place of what they stand for. */
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

/** JSON files that dependencies ask for, as CommonJS modules. */
export function json(): Plugin {
  return {
    name: 'json',
    transform: (code, id) =>
      id.endsWith('.json') ? { code: `module.exports = ${code};`, map: null } : null,
  };
}

/** `import.meta.url` names the place of the module, not that of the program it became a part of. */
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
