/**
 * Between the source and its target: passes everything on but for what the target says after its first `most` messages.
 * `migrate-mute.js MOST MARK COMMAND...`: MARK is a file that is made when something was swallowed.
 */

import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { controlFrame, FrameReader, greeting } from '../../src/migrate/wire/frame.js';

const [most = '', mark = '', command = '', ...args] = process.argv.slice(2);
const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
let heard = 0;
const reader = new FrameReader({
  greeted: () => void process.stdout.write(greeting),
  control: (payload) => {
    heard += 1;
    if (heard <= Number(most)) process.stdout.write(controlFrame(payload));
    else writeFileSync(mark, '');
  },
  content: () => undefined,
  bytes: () => undefined,
});
child.stdin.on('error', () => undefined);
process.stdout.on('error', () => undefined);
process.stdin.pipe(child.stdin);
child.stdout.on('data', (bytes: Buffer) => reader.push(bytes));
child.on('close', (status) => process.exit(status ?? 255));
