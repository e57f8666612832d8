/** What containerd says of containers of pods, and their processes. */

import { run } from '../../e2e/support/command.js';

/** `ctr` in the namespace of Kubernetes. */
export const ctr = (...args: string[]): Promise<string> => run('ctr', '-n', 'k8s.io', ...args);

/** The pid of a container's first process. */
export async function firstPid(container: string): Promise<number> {
  return Number(/^\d+/m.exec(await ctr('task', 'ps', container))?.[0]);
}

/** RUNNING, PAUSED and so on, or none. */
export async function taskState(container: string): Promise<string> {
  const list = await ctr('task', 'ls');
  return new RegExp(`^${container} +\\d+ +(\\w+)`, 'm').exec(list)?.[1] ?? 'none';
}
