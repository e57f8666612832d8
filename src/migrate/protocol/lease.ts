/**
 * The lease: how long the target may run the container without having heard that it keeps it. The hosts' clocks are
 * not compared. The target counts from the moment when it asks, the source from the later moment when it grants. So the
 * target's count ends first, by more than `marginMs`, as long as both clocks run at the same rate within one percent.
 */

/** A moment on a host: CLOCK_BOOTTIME, which counts suspended time, too. */
export interface Moment {
  /** /proc/sys/kernel/random/boot_id. */
  readonly bootId: string;
  readonly ms: number;
}

export interface LeaseTerms {
  /** From the target's question on, milliseconds. */
  readonly leaseMs: number;
  /** What the source waits longer: the guard needs time to stop a container. Milliseconds. */
  readonly marginMs: number;
}

/** A restore through podman takes its time before the GPU goes on. */
export const defaultTerms: LeaseTerms = { leaseMs: 120_000, marginMs: 30_000 };

/** How long the source waits for an answer that needs no start of a container. Milliseconds. */
export const answerMs = 120_000;

/** Clocks of computers differ by less. */
const drift = 1.01;

/** When the target must have stopped, unless it was told that it keeps the container. */
export function targetDeadline(asked: Moment, { leaseMs }: LeaseTerms): Moment {
  return { ...asked, ms: asked.ms + leaseMs };
}

/** When the target has stopped for sure. */
export function sourceDeadline(granted: Moment, { leaseMs, marginMs }: LeaseTerms): Moment {
  return { ...granted, ms: granted.ms + Math.ceil(leaseMs * drift) + marginMs };
}

/** For the target. What it ran before its host started again has ended with the host. */
export function isOverAtTarget(deadline: Moment, now: Moment): boolean {
  return deadline.bootId !== now.bootId || now.ms >= deadline.ms;
}

/**
 * For the source: milliseconds that it still has to wait. A recorded deadline of an earlier boot says nothing about
 * now, so the whole time begins again: `restarted` is the moment of this process's start.
 */
export function waitAtSource(
  deadline: Moment,
  now: Moment,
  restarted: Moment,
  terms: LeaseTerms,
): number {
  const until = deadline.bootId === now.bootId ? deadline : sourceDeadline(restarted, terms);
  return Math.max(0, until.ms - now.ms);
}
