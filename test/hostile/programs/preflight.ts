/**
 * `preflight.js preflight DIRECTORY ROOT [CONTENTS...]`: the session's checks of an image directory before a restore,
 * alone. CONTENTS: folders as a command's request names them.
 */

import { exitCodeOf, failureText } from '../../../src/cli/failure.js';
import { asKfdError } from '../../../src/errors.js';
import { openOwnFolder } from '../../../src/os/own-folder.js';
import { preflight } from '../../../src/session/restore/preflight.js';

const [, directory = '', root = '', ...folders] = process.argv.slice(2);
const host = { root, kfdVersion: '1.17' };
try {
  const find = () => Promise.all(folders.map(openOwnFolder));
  const plan = await preflight(directory, {}, host, find);
  process.stdout.write(`ready: ${plan?.processes.length ?? 'none'}\n`);
} catch (error) {
  const known = asKfdError(error, 'preflight');
  process.stderr.write(failureText(known));
  process.exitCode = exitCodeOf(known);
}
