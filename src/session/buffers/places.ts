/** BOs by their place in the image, and BOs that are the same buffer. */

/** A BO of one process, by its index in the state file. */
export interface BoPlace {
  readonly process: number;
  readonly bo_index: number;
}

/** An imported BO, and the BO that stores the contents of the buffer. */
export interface SharedBo extends BoPlace {
  readonly owner: BoPlace;
}

/**
 * Processes that would wait for each other at a restore, if there are any. A process makes the BOs of its render files
 * in order. It waits for shared BOs that another process makes. KFD's BOs exist before any process waits.
 */
export function waitingCircle(
  shares: readonly SharedBo[],
  isOfRenderFile: (place: BoPlace) => boolean,
): readonly number[] | undefined {
  const waitsFor = new Map<number, Set<number>>();
  for (const { process, owner } of shares) {
    if (process === owner.process || !isOfRenderFile(owner)) continue;
    waitsFor.set(process, (waitsFor.get(process) ?? new Set()).add(owner.process));
  }
  const done = new Set<number>();
  const follow = (process: number, path: readonly number[]): readonly number[] | undefined => {
    if (path.includes(process)) return path.slice(path.indexOf(process));
    if (done.has(process)) return undefined;
    for (const next of waitsFor.get(process) ?? []) {
      const circle = follow(next, [...path, process]);
      if (circle !== undefined) return circle;
    }
    done.add(process);
    return undefined;
  };
  for (const process of waitsFor.keys()) {
    const circle = follow(process, []);
    if (circle !== undefined) return circle;
  }
  return undefined;
}

/** The place as a key. */
export function placeKey({ process, bo_index }: BoPlace): string {
  return `${process}/${bo_index}`;
}
