/** The tasks of the shim, run in a process of their own, and the options in their requests. */

import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { bytesField, numberField } from '../../src/protobuf.js';
import { repository } from './paths.js';

/** Runs one task as the shim does, in the folder `cwd`. */
export async function task(
  args: readonly string[],
  input: Buffer,
  env: Record<string, string> = {},
  cwd = process.cwd(),
): Promise<{ status: unknown; output: Buffer; errors: string }> {
  const program = join(repository, 'dist/shim/task/main.js');
  const child = spawn(process.execPath, [program, ...args], {
    cwd,
    env: { ...process.env, ...env },
  });
  child.stdin.end(input);
  const output: Buffer[] = [];
  let errors = '';
  child.stdout.on('data', (chunk: Buffer) => output.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => {
    errors += chunk.toString();
  });
  const status = await new Promise((resolve) => child.on('close', resolve));
  return { status, output: Buffer.concat(output), errors };
}

/** Options as field `number` of a request: their fields in an Any. */
export function options(number: number, type: string, ...fields: Buffer[]): Buffer {
  return bytesField(
    number,
    Buffer.concat([bytesField(1, type), bytesField(2, Buffer.concat(fields))]),
  );
}

/** CheckpointTaskRequest whose log is wanted in the folder `work`, as containerd writes it. */
export function checkpointInto(work: string): Buffer {
  const type = 'containerd.runc.v1.CheckpointOptions';
  const wanted = options(3, type, numberField(1, 1), bytesField(9, work));
  return Buffer.concat([bytesField(1, 'one'), bytesField(2, '/image'), wanted]);
}
