/** Sends a container image to a target that does not have it: its engine here, ssh, its engine there. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { KfdError, printable } from '../errors.js';
import { usualNamespace } from '../migrate/containerd-engine.js';
import type { Question } from '../migrate/question/documents.js';
import { Ssh } from '../migrate/ssh.js';
import { missing } from '../os/exec.js';

/** What prints an image, and what takes it from standard input there. */
export interface ImageCommands {
  readonly saves: readonly [string, ...string[]];
  readonly loads: readonly string[];
}

export function imageCommands({
  engine,
  namespace = usualNamespace,
  image,
}: Pick<Question, 'engine' | 'namespace' | 'image'>): ImageCommands {
  const ctr = ['ctr', '--namespace', namespace, 'image'] as const;
  if (engine === 'containerd')
    return { saves: [...ctr, 'export', '-', image], loads: [...ctr, 'import', '-'] };
  return {
    saves: ['podman', 'image', 'save', image],
    loads: ['podman', 'image', 'load', '--quiet'],
  };
}

/** Throws E_HOST where either end fails, E_CANCELLED after `signal`. */
export async function sendImage(
  image: string,
  host: string,
  signal: AbortSignal,
  commands: ImageCommands,
): Promise<void> {
  const [program, ...own] = commands.saves;
  const saves = spawn(program, own, { stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  saves.stderr.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-1024);
  });
  const saved = once(saves, 'exit') as Promise<[number | null]>;
  try {
    await once(saves, 'spawn');
  } catch (error) {
    throw missing(program, error as Error);
  }
  const ssh = await Ssh.open(host, commands.loads, saves.stdout).catch((error: unknown) => {
    saves.kill('SIGTERM');
    throw error;
  });
  // ssh has its own descriptor of that pipe: a reader here would take bytes from it.
  saves.stdout.destroy();
  const stop = () => {
    saves.kill('SIGTERM');
    ssh.end();
  };
  ssh.child.stdout?.resume();
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  try {
    const status = await ssh.ended;
    if (status !== 0) saves.kill('SIGTERM');
    const [ownStatus] = await saved;
    if (signal.aborted) throw new KfdError('E_CANCELLED', 'migrate: interrupted');
    if (ownStatus === 0 && status === 0) return;
    const reason = printable((status === 0 ? said : ssh.said).trimEnd().split('\n').at(-1) ?? '');
    throw new KfdError('E_HOST', `image ${image}: was not sent to ${host}: ${reason}`, {
      hint: `send it by hand: ${commands.saves.join(' ')} | ssh ${host} ${commands.loads.join(' ')}`,
    });
  } finally {
    signal.removeEventListener('abort', stop);
  }
}
