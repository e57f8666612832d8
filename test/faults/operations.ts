/** What is done to a container while something goes wrong. */

import type { Job } from './support/job.js';

export interface Operation {
  readonly name: string;
  readonly kind: 'checkpoint' | 'restore';
  /** The container continues after a success. */
  readonly leaves: boolean;
  /** Where a success leaves the checkpoint. */
  readonly to: 'archive' | 'parent' | 'place';
  words(job: Job): string[];
}

const podman = ['podman', 'container'];
const plain = ['--compress', 'none'];

function archive(job: Job): string[] {
  return [...plain, '--export', job.tried];
}

export const operations = {
  export: {
    name: 'export',
    kind: 'checkpoint',
    leaves: false,
    to: 'archive',
    words: (job) => [...podman, 'checkpoint', ...archive(job), job.container.name],
  },
  leave: {
    name: 'leave-running',
    kind: 'checkpoint',
    leaves: true,
    to: 'archive',
    words: (job) => [
      ...podman,
      'checkpoint',
      '--leave-running',
      ...archive(job),
      job.container.name,
    ],
  },
  parent: {
    name: 'parent',
    kind: 'checkpoint',
    leaves: false,
    to: 'parent',
    words: (job) => [
      ...['kfd-checkpoint', 'checkpoint', '--quiet', '--parent', job.base, job.container.name],
      ...archive(job),
    ],
  },
  place: {
    name: 'in place',
    kind: 'checkpoint',
    leaves: false,
    to: 'place',
    words: (job) => [...podman, 'checkpoint', job.container.name],
  },
  import: {
    name: 'import',
    kind: 'restore',
    leaves: true,
    to: 'archive',
    words: (job) => [...podman, 'restore', '--import', job.base],
  },
  'import-parent': {
    name: 'import with parent',
    kind: 'restore',
    leaves: true,
    to: 'parent',
    words: (job) => ['kfd-checkpoint', 'restore', '--quiet', '--parent', job.base, job.later],
  },
  'restore-place': {
    name: 'restore in place',
    kind: 'restore',
    leaves: true,
    to: 'place',
    words: (job) => [...podman, 'restore', '--keep', job.container.name],
  },
} as const satisfies Record<string, Operation>;

export type PodmanOperation = keyof typeof operations;
