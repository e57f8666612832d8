/**
 * Loaded before the program under test. At its end it writes to the file $HOSTILE_REPORT what no one outside can see:
 * the code of the last error that got an exit status, and the exact peak of memory.
 */

import { readFileSync, writeFileSync } from 'node:fs';
import { exitCodes } from '../../../src/errors.js';

export interface ProbeReport {
  readonly code: string | undefined;
  readonly memoryBytes: number;
  readonly writtenBytes: number;
}

let code: string | undefined;
for (const [name, status] of Object.entries(exitCodes)) {
  Object.defineProperty(exitCodes, name, {
    get: () => {
      code = name;
      return status;
    },
  });
}

process.on('exit', () => {
  const written = /^wchar: (\d+)$/m.exec(readFileSync('/proc/self/io', 'latin1'))?.[1];
  const report: ProbeReport = {
    code,
    memoryBytes: process.resourceUsage().maxRSS * 1024,
    writtenBytes: Number(written),
  };
  writeFileSync(process.env['HOSTILE_REPORT'] ?? '', JSON.stringify(report));
});
