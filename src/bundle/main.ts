/**
 * `main.js FOLDER` makes the programs of an installation from the output of tsc. Each program is one file, and one more
 * for what few calls need: opening many modules makes a start slow, and so does a large file. The session and podman's
 * hook start for every container with a GPU.
 */

import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { basename, dirname, join } from 'node:path';
import commonjsModule from '@rollup/plugin-commonjs';
import { nodeResolve } from '@rollup/plugin-node-resolve';
import { type OutputChunk, rollup } from '@rollup/wasm-node';
import { notices, packageOf } from './notices.js';
import { dist, repository } from './places.js';
import { heldAt, json, modulePlaces, slim, withoutStages } from './plugins.js';

// Its types describe the CommonJS form, where the function is a member.
const commonjs = commonjsModule as unknown as typeof commonjsModule.default;

const programs = [
  'hooks/precreate.js',
  'shim/main.js',
  'shim/task/main.js',
  'src/session/main.js',
  'src/session/control/grpc/main.js',
  'src/cli/main.js',
];

/**
 * Makes one program, and returns the ids of its modules. Throws on every warning, and for a module that would be
 * resolved at run time.
 */
async function bundle(program: string, folder: string, stages?: string): Promise<string[]> {
  const build = await rollup({
    input: join(dist, program),
    plugins: [
      slim(),
      stages === undefined ? withoutStages() : heldAt(stages),
      json(),
      nodeResolve({ exportConditions: ['node'], preferBuiltins: true }),
      commonjs({ ignoreTryCatch: false, extensions: ['.js', '.json'] }),
      modulePlaces(program),
    ],
    // nodeResolve, after slim, knows the other modules of Node.js.
    external: (id) => id.startsWith('node:'),
    onLog: (level, log) => {
      // Cycles inside a dependency are resolved as in Node.js.
      const foreignCycle =
        log.code === 'CIRCULAR_DEPENDENCY' && log.ids?.every((id) => packageOf(id) !== undefined);
      if (level === 'warn' && !foreignCycle) throw new Error(`${program}: ${log.message}`);
    },
  });
  const { output } = await build.write({
    dir: join(folder, 'dist', dirname(program)),
    entryFileNames: basename(program),
    chunkFileNames: `late-${basename(program)}`,
    // Node.js loads its ES module loader only for programs that need it.
    format: 'cjs',
    generatedCode: 'es2015',
    interop: 'default',
    // The same for modules that are loaded late.
    dynamicImportInCjs: false,
  });
  await build.close();
  const chunks = output.filter((file): file is OutputChunk => file.type === 'chunk');
  const own = chunks.map(({ fileName }) => fileName);
  const missing = chunks
    .flatMap(({ imports, dynamicImports }) => [...imports, ...dynamicImports])
    .filter((name) => !isBuiltin(name) && !own.includes(name));
  if (missing.length > 0) throw new Error(`${program}: not bundled: ${missing.join(', ')}`);
  return chunks.flatMap(({ moduleIds }) => moduleIds);
}

/** The installation's package.json: members that are read at run time, and the module type CommonJS. */
function description(): string {
  const source = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8')) as object;
  const kept = ['name', 'version', 'description', 'license', 'private', 'engines', 'bin'];
  const entries = Object.entries(source).filter(([key]) => kept.includes(key));
  return `${JSON.stringify({ ...Object.fromEntries(entries), type: 'commonjs' }, null, 2)}\n`;
}

// The module STAGES makes a build for tests: test/faults.
const [folder, stages] = process.argv.slice(2);
if (folder === undefined) throw new Error('usage: main.js FOLDER [STAGES]');
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
const modules = new Set<string>();
for (const program of programs) {
  for (const id of await bundle(program, folder, stages)) modules.add(id);
}
writeFileSync(join(folder, 'package.json'), description());
writeFileSync(join(folder, 'THIRD-PARTY-NOTICES'), notices(modules));
