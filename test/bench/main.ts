/** Runs the named sections in the guest; results join those in /share/results.json. */

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { run } from '../e2e/support/command.js';
import { install } from '../e2e/support/product.js';
import { containerd } from './containerd.js';
import { freeze } from './freeze.js';
import { hidden } from './hidden.js';
import { memory } from './memory.js';
import { migrateBench as migrate } from './migrate.js';
import { plain } from './plain.js';
import { processes } from './processes.js';
import { spare } from './spare.js';
import { table } from './table.js';
import { upstream } from './upstream.js';

const sections = {
  table,
  hidden,
  freeze,
  processes,
  memory,
  plain,
  containerd,
  spare,
  migrate,
  upstream,
};
type Section = keyof typeof sections;

const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !Object.hasOwn(sections, name));
if (wanted.length === 0 || unknown.length > 0)
  throw new Error(`unknown: ${unknown.join(', ')}; sections: ${Object.keys(sections).join(', ')}`);

await install();
await run('podman', 'load', '-q', '-i', '/repo/build/lab/programs/image.tar');
process.stdout.write(
  'simulated GPU, emulated machine: compare these figures only with each other\n',
);
const results: Partial<Record<Section, unknown>> = {};
for (const name of Object.keys(sections) as Section[]) {
  if (wanted.includes(name)) results[name] = await sections[name]();
}
const file = '/share/results.json';
const earlier = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {};
writeFileSync(file, `${JSON.stringify({ simulated: true, ...earlier, ...results }, null, 2)}\n`);
