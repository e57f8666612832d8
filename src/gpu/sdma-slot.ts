/**
 * Places of SDMA queues on a GPU. KFD counts them apart for engines of PCIe and of XGMI, and RESTORE takes the recorded
 * place or none (kfd_device_queue_manager.c:allocate_sdma_queue@6.12.118). Pure.
 */

export interface SdmaSlot {
  readonly link: 'pcie' | 'xgmi';
  /** The queue's `sdma_id`: its number among those of all engines for that link. */
  readonly id: number;
}

/** Engines of one GPU for each link, as in KFD's topology. */
export interface SdmaEngines {
  readonly pcie: number;
  readonly xgmi: number;
}

/** KFD_MAX_SDMA_QUEUES of kfd_priv.h@6.12.118: the width of its bitmaps. */
export const maxSlots = 128;

export const isSlot = (slot: SdmaSlot, other: SdmaSlot): boolean =>
  slot.link === other.link && slot.id === other.id;

/** The place of queue `queue` of engine `engine`, both counted as in its MQD; undefined: there is no such engine. */
export function slotOf(
  engine: number,
  queue: number,
  { pcie, xgmi }: SdmaEngines,
): SdmaSlot | undefined {
  const slot: SdmaSlot =
    engine < pcie
      ? { link: 'pcie', id: queue * pcie + engine }
      : { link: 'xgmi', id: queue * xgmi + engine - pcie };
  return engine < pcie + xgmi && slot.id < maxSlots ? slot : undefined;
}

/** For people, as KFD counts them. */
export function named(slots: readonly SdmaSlot[]): string {
  const numbers = (link: SdmaSlot['link']) =>
    slots.flatMap((slot) => (slot.link === link ? [slot.id] : [])).sort((a, b) => a - b);
  const parts = [
    ['SDMA queue', numbers('pcie')],
    ['XGMI SDMA queue', numbers('xgmi')],
  ] as const;
  return parts
    .filter(([, ids]) => ids.length > 0)
    .map(([what, ids]) => `${what}${ids.length > 1 ? 's' : ''} ${ids.join(', ')}`)
    .join(' and ');
}
