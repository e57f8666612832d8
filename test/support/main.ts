/** `npm run support [-- LOG...]`: takes results of end-to-end runs into the repository, and makes the tables anew. */

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { repository } from '../unit/paths.js';
import { readmeWith, supportPage } from './page.js';
import { type Run, runIn, withRun } from './runs.js';

const path = (name: string) => join(repository, name);
const read = (name: string) => readFileSync(path(name), 'utf8');

const day = new Date().toISOString().slice(0, 10);
let runs = JSON.parse(read('test/support/runs.json')) as Run[];
for (const log of process.argv.slice(2))
  runs = withRun(runs, runIn(readFileSync(log, 'utf8'), day));
writeFileSync(path('test/support/runs.json'), `${JSON.stringify(runs, null, 2)}\n`);
writeFileSync(path('README.md'), readmeWith(read('README.md'), runs));
writeFileSync(path('docs/support.md'), supportPage(runs));
