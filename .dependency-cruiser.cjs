/** Checks every import against src/modules.list, and forbids circles. `npx depcruise src shim hooks` runs it. */

const { readFileSync } = require('node:fs');
const { join } = require('node:path');

const forAll = ['src/addon', 'src/addon.ts', 'src/errors.ts', 'src/rpc-status.ts', 'src/stages.ts', 'src/version.ts'];
const modules = readFileSync(join(__dirname, 'src/modules.list'), 'utf8')
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'))
  .map((line) => line.split(/ +/));
const names = modules.map(([name]) => name);

/** A pattern for the files of a module: one file, or a folder without the modules below it. */
function pattern(name) {
  const path = name.replaceAll('.', '\\.');
  if (name.endsWith('.ts')) return `^${path}$`;
  const below = names.filter((other) => other.startsWith(`${name}/`) && !other.endsWith('.ts'));
  const others = below.map((other) => `${other.slice(name.length + 1)}/`);
  return others.length === 0 ? `^${path}/` : `^${path}/(?!${others.join('|')})`;
}

const isModule = (name) => /^(src|shim|hooks)(\/|$)/.test(name);
const packagePattern = (name) => `node_modules/${name}/`;

module.exports = {
  forbidden: [
    { name: 'no-circles', severity: 'error', from: {}, to: { circular: true } },
    {
      name: 'in-modules.list',
      comment: 'Every file belongs to a module of src/modules.list.',
      severity: 'error',
      from: { pathNot: [...names, ...forAll].map(pattern) },
      to: {},
    },
    {
      name: 'addon-in-native.ts',
      comment: 'Only src/native.ts loads the addon; src/bundle resolves files of packages.',
      severity: 'error',
      from: { pathNot: ['^src/native\\.ts$', '^src/bundle/'] },
      to: { path: ['^module$', '\\.node$'] },
    },
    {
      name: 'grpc-on-demand',
      comment: 'gRPC is a separate program. A static import would make it a part of another one.',
      severity: 'error',
      from: { pathNot: ['^src/session/control/load\\.ts$', '^src/session/control/grpc/'] },
      to: { path: '^src/session/control/grpc/' },
    },
    ...modules.map(([name, ...allowed]) => ({
      name,
      comment: `src/modules.list says what ${name} may import.`,
      severity: 'error',
      from: { path: pattern(name) },
      to: {
        path: ['^(src|shim|hooks)/', 'node_modules/'],
        pathNot: [
          ...[name, ...forAll, ...allowed.filter(isModule)].map(pattern),
          ...allowed.filter((name) => !isModule(name)).map(packagePattern),
        ],
      },
    })),
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsConfig: { fileName: 'tsconfig.json' },
    tsPreCompilationDeps: true,
  },
};
