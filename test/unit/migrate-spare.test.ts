/** A session that a migration starts before CRIU asks for one. */

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { SpareSession } from '../../src/migrate/spare-session.js';
import { until } from './migrate-two-places.js';
import { repository, temporaryFolder } from './paths.js';

/** Says how it was started, and how it ends. */
const session = `const { appendFileSync, readFileSync } = require('node:fs');
const say = (text) => appendFileSync(__dirname + '/log', text + '\\n');
process.on('SIGUSR2', () => { say('asked to end'); process.exit(0); });
const files = /Max open files +(\\d+)/.exec(readFileSync('/proc/self/limits', 'utf8'))[1];
say([process.argv[2], process.cwd(), process.umask().toString(8), files].join(' '));
console.error('a word without a log');
setInterval(() => undefined, 1000);
`;

/** An installation: its command line, and what its session has said. */
async function installation(t: TestContext) {
  const folder = await temporaryFolder(t);
  await mkdir(join(folder, 'src/session'), { recursive: true });
  await mkdir(join(folder, 'src/cli'));
  await writeFile(join(folder, 'src/session/main.js'), session);
  const log = join(folder, 'src/session/log');
  const said = () => (existsSync(log) ? readFileSync(log, 'utf8').split('\n') : []);
  return { main: join(folder, 'src/cli/main.js'), said, logs: join(folder, 'logs') };
}

test('it starts as the launcher would start it, and ends when it was not needed', async (t) => {
  const { main, said, logs } = await installation(t);
  const spare = SpareSession.start([process.execPath, main], logs);
  await until('it has started', () => said().length > 1);
  // As many as this process may raise it to.
  const words = 'ulimit -n "$(cat /proc/sys/fs/nr_open)" 2>/dev/null; ulimit -Hn';
  const most = execFileSync('sh', ['-c', words], { encoding: 'utf8' }).trim();
  assert.equal(said()[0], `spare / 77 ${most}`);
  spare.release();
  await until('it has ended', () => said()[1] === 'asked to end');
  const printed = readFileSync(join(logs, 'session-stderr.log'), 'utf8');
  assert.equal(printed, 'a word without a log\n');
});

test('it ends with a migration that was killed', async (t) => {
  const { main, said, logs } = await installation(t);
  const module = pathToFileURL(join(repository, 'dist/src/migrate/spare-session.js')).href;
  const words = `import { SpareSession } from '${module}';
SpareSession.start([process.execPath, '${main}'], '${logs}');
setInterval(() => undefined, 1000);`;
  const migration = spawn(process.execPath, ['--input-type=module', '-e', words], {
    stdio: 'ignore',
  });
  t.after(() => migration.kill('SIGKILL'));
  await until('it has started', () => said().length > 1);
  migration.kill('SIGKILL');
  await until('it has ended', () => said()[1] === 'asked to end');
});

test('without it nothing fails', async (t) => {
  const path = process.env['PATH'];
  t.after(() => {
    process.env['PATH'] = path;
  });
  process.env['PATH'] = await temporaryFolder(t);
  SpareSession.start([process.execPath, '/nowhere/src/cli/main.js']).release();
});
