/** `preflight.js preflight DIRECTORY ROOT`: the session's checks of an image directory before a restore, alone. */

import { exitCodeOf, failureText } from '../../../src/cli/failure.js';
import { asKfdError } from '../../../src/errors.js';
import { preflight } from '../../../src/session/restore/preflight.js';

const [, directory = '', root = ''] = process.argv.slice(2);
try {
  const plan = await preflight(directory, {}, { root, kfdVersion: '1.17' });
  process.stdout.write(`ready: ${plan?.processes.length ?? 'none'}\n`);
} catch (error) {
  const known = asKfdError(error, 'preflight');
  process.stderr.write(failureText(known));
  process.exitCode = exitCodeOf(known);
}
