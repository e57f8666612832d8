/** Failures of other programs that happen without this product, too. */

import type { Row, Step } from './row.js';
import type { Victim } from './support/victims.js';

interface Known {
  readonly when: (row: Row) => boolean;
  readonly problem: RegExp;
  /** Whose it is, and what shows it: a control without a GPU, or the source. */
  readonly reason: string;
}

const strikes = (row: Row, ...victims: readonly Victim[]) =>
  row.steps.some(({ fault }) => typeof fault === 'object' && victims.includes(fault.victim));

const isArchiveFull = ({ fault }: Step) => fault === 'archive full';

const cgroupMount = /^left: mount \S+\/\.criu\.cgyard\.\w+(\/\S+)?$/;

const known: readonly Known[] = [
  {
    when: (row) => strikes(row, 'criu'),
    problem: cgroupMount,
    reason:
      'CRIU mounts cgroups there, and takes them away when it ends by itself (criu/cgroup.c:fini_cgroup)',
  },
  {
    when: (row) => row.steps.some(({ stage }) => stage === 'session-restore.resume-called'),
    problem: cgroupMount,
    reason:
      'a task that is killed while CRIU runs its post-restore scripts makes CRIU abort, so it takes nothing away ' +
      '(criu/proc_parse.c:parse_threads@4.1.1, BUG_ON)',
  },
  {
    when: (row) =>
      row.operation === 'leave' && (strikes(row, 'engine') || row.steps.some(isArchiveFull)),
    problem: /^image files stay: /,
    reason:
      'podman never removes the image of a container that goes on, whatever becomes of the archive: the control ' +
      'plain-leave with a killed engine; podman libpod/container_internal_common.go:checkpoint@0106e59 (it returns ' +
      'the error of exportCheckpoint, and the image stays)',
  },
  {
    when: (row) => row.engine === 'containerd' && row.operation === 'ctr-checkpoint',
    problem: /^success, and no restore: ctr: media type not found/,
    reason:
      'containerd before 2.0 cannot write a spec that an earlier checkpoint has written (services/tasks/local.go:' +
      'writeContent@1.7.24), and ctr takes that for a success without the task (container.go:Checkpoint@1.7.24); ' +
      'docs/containerd.md has the way out',
  },
  {
    when: (row) => strikes(row, 'engine'),
    problem: /^it runs on, and podman does not know it$/,
    reason:
      'runtime and conmon go on when podman is killed in a restore, and nobody tells podman: the control ' +
      'plain-import with a killed engine; docs/troubleshooting.md has the way out, which the row takes',
  },
  {
    when: (row) => strikes(row, 'runtime', 'engine'),
    problem: /^it stands still under podman 6$/,
    reason:
      'podman 6 freezes the cgroup of a container that goes on, and CRIU freezes it again at its end ' +
      '(criu/seize.c:freezer_restore_state@4.2), when nobody lives who would let it go: the controls plain-leave; ' +
      'docs/troubleshooting.md has the way out, which the row takes',
  },
  {
    when: (row) => strikes(row, 'runtime', 'engine', 'conmon'),
    problem: /^left: mount \S+\/criu-root$/,
    reason:
      'crun and runc bind the root file system there for CRIU, and only a runtime that lives takes the mount away ' +
      '(crun src/libcrun/criu.c:libcrun_container_restore_linux_criu, runc libcontainer/criu_linux.go:Restore); ' +
      'docs/troubleshooting.md has the way out',
  },
];

/** Why this problem of the row is none of this product's; undefined if nothing says so. */
export function upstreamReason(row: Row, problem: string): string | undefined {
  return known.find((one) => one.when(row) && one.problem.test(problem))?.reason;
}
