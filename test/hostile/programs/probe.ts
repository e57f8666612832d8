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
  const written = /^wchar: (\d+)$/m.exec(ownFile('io'))?.[1];
  const report: ProbeReport = {
    code,
    // Not ru_maxrss: that begins with the memory of whoever started the program.
    memoryBytes: 1024 * Number(/^VmHWM:\s+(\d+) kB$/m.exec(ownFile('status'))?.[1]),
    writtenBytes: Number(written),
  };
  writeFileSync(process.env['HOSTILE_REPORT'] ?? '', JSON.stringify(report));
});

function ownFile(name: string): string {
  return readFileSync(`/proc/self/${name}`, 'latin1');
}
