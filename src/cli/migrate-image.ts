/** Sends a container image to a target that does not have it: podman here, ssh, podman there. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { KfdError, printable } from '../errors.js';
import { Ssh } from '../migrate/ssh.js';
import { missing } from '../os/exec.js';

/** Throws E_HOST where either end fails, E_CANCELLED after `signal`. */
export async function sendImage(image: string, host: string, signal: AbortSignal): Promise<void> {
  const saves = spawn('podman', ['image', 'save', image], { stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  saves.stderr.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-1024);
  });
  const saved = once(saves, 'exit') as Promise<[number | null]>;
  try {
    await once(saves, 'spawn');
  } catch (error) {
    throw missing('podman', error as Error);
  }
  const words = ['podman', 'image', 'load', '--quiet'];
  const ssh = await Ssh.open(host, words, saves.stdout).catch((error: unknown) => {
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
      hint: `send it by hand: podman save ${image} | ssh ${host} podman load`,
    });
  } finally {
    signal.removeEventListener('abort', stop);
  }
}
