/** A task of containerd, and a ctr that answers for it. */

import assert from 'node:assert/strict';
import type { Run } from '../../src/os/exec.js';

export const task = { namespace: 'default', id: 'job' };
export const record = {
  ID: 'job',
  Labels: { owner: 'me' },
  Image: 'docker.io/library/job:1',
  Runtime: { Name: 'io.containerd.runc.kfd.v2', Options: null },
  SnapshotKey: 'job',
  Snapshotter: 'overlayfs',
  Spec: { ociVersion: '1.1.0', mounts: [{ type: 'bind', source: '/srv', destination: '/data' }] },
};

/** Answers each call of ctr; a number is a failure. Remembers the words of all. */
export function ctrThat(answers: (words: string) => string | number) {
  const asked: string[] = [];
  const run: Run = async (command, args) => {
    assert.deepEqual([command, ...args.slice(0, 2)], ['ctr', '--namespace', 'default']);
    const words = args.slice(2).join(' ');
    asked.push(words);
    const answer = answers(words);
    return typeof answer === 'number'
      ? { status: answer, stdout: '', stderr: 'ctr: container "job": not found\n' }
      : { status: 0, stdout: answer, stderr: '' };
  };
  return { asked, run };
}
