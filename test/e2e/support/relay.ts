/**
 * A stand-in for ssh that stays between both programs: `relay.js COMMAND [ARGUMENT...]` starts it and passes on what it
 * reads and writes. When this process is killed, either one sees the end of the connection, as with ssh.
 */

import { spawn } from 'node:child_process';

const [command = '', ...args] = process.argv.slice(2);
const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
// A program that has ended reads no more.
child.stdin.on('error', () => undefined);
process.stdout.on('error', () => undefined);
process.stdin.pipe(child.stdin);
child.stdout.pipe(process.stdout, { end: false });
child.on('error', () => process.exit(127));
child.on('close', (status) => process.stdout.write('', () => process.exit(status ?? 255)));
