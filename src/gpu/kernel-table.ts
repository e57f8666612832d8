/**
 * What kernels cannot bring back: data alone, one row for each reason. kernel-rules.ts applies the rows, and
 * docs/kernels.md shows them. Rows come from the drivers' sources; `sources` names the place in the version that was
 * read, as `file:function@version`, below drivers/gpu/drm/amd.
 */

import type { QueueKind } from './kfd-objects.js';

/** Releases from `from` on that are older than `before`. Without one of them there is no bound. */
export interface Releases {
  readonly from?: string;
  readonly before?: string;
}

/** All conditions hold. Without any, the row is about every GPU. */
export interface GpuCondition {
  /** gfx_target_version: at least the first, and below the second. */
  readonly gfx?: readonly [from: number, below: number];
  /** Queues run on several compute dies (XCCs). */
  readonly dies?: 'several';
  /** One of several KFD nodes of one PCI device. */
  readonly partition?: true;
}

/**
 * What only a saved queue shows: its save area is in an SVM range; a dispatch was stopped in its middle and the blob
 * has no control stack.
 */
export type SavedCondition = 'area_in_svm_range' | 'stopped_without_stack';

export interface KernelRow {
  /** Short and stable. */
  readonly id: string;
  readonly kernels: readonly Releases[];
  readonly gpus: GpuCondition;
  readonly queues: readonly QueueKind[];
  /** A row without it is known before the pause. */
  readonly saved?: SavedCondition;
  /** MQDs that such a kernel saves of a queue on several dies. */
  readonly mqds?: 'one' | 'all';
  /** A saved queue decides instead of `kernels`: distributions change drivers within a release. */
  readonly evident?: true;
  /** A saved queue that could be read is the proof against it. */
  readonly unreadable?: true;
  /** A module parameter of amdgpu, and the value with which the row holds. */
  readonly parameter?: readonly [name: string, value: number];
  /** The row does not hold when the kernel says that RESTORE takes such queues (native/core/kfd/queue_probe.h). */
  readonly probed?: true;
  /** `refused`: no checkpoint. `placed`: a restore works in the same place alone. */
  readonly effect: 'refused' | 'placed';
  /** A clause, for messages. */
  readonly why: string;
  readonly instead: string;
  readonly sources: readonly string[];
}

/** Releases whose amdgpu and amdkfd were read for the table. */
export const readKernels: readonly string[] = [
  '6.1.192',
  '6.12.107',
  '6.12.111',
  '6.12.113',
  '6.12.117',
  '6.12.118',
  '7.2.13',
  '7.3.4',
];

const all: readonly QueueKind[] = ['compute', 'sdma', 'other'];
const gfx9 = [90000, 100000] as const;

export const kernelTable: readonly KernelRow[] = [
  {
    id: 'layout',
    kernels: [{ before: '6.8' }],
    gpus: {},
    queues: all,
    evident: true,
    unreadable: true,
    effect: 'refused',
    why: 'KFD saves queues in a layout that is not known here',
    instead: 'a kernel from 6.8 on',
    sources: ['amdgpu/amdgpu.h:MAX_GPU_INSTANCE@6.1.192'],
  },
  {
    id: 'no_cwsr',
    kernels: [{}],
    gpus: {},
    queues: all,
    parameter: ['cwsr_enable', 0],
    effect: 'refused',
    why: 'no queue can be saved with amdgpu.cwsr_enable=0',
    instead: 'amdgpu.cwsr_enable=1',
    sources: ['amdkfd/kfd_device_queue_manager.c:checkpoint_mqd@6.12.118'],
  },
  {
    id: 'mes',
    kernels: [{}],
    gpus: { gfx: [110000, Number.POSITIVE_INFINITY] },
    queues: all,
    effect: 'refused',
    why: 'no kernel can bring back queues of gfx11 and later',
    instead: 'none',
    sources: [
      'amdkfd/kfd_device_queue_manager.c:add_queue_mes@6.12.107',
      'amdkfd/kfd_device_queue_manager.c:add_queue_mes@7.3.4',
    ],
  },
  {
    id: 'gfx10_stack',
    kernels: [{ from: '6.12.108', before: '6.13' }],
    gpus: { gfx: [100000, 110000] },
    queues: ['compute'],
    effect: 'refused',
    why: 'Linux 6.12 from 6.12.108 on does not take back compute queues of gfx10',
    instead: 'another kernel',
    sources: [
      'amdkfd/kfd_process_queue_manager.c:kfd_criu_restore_queue@6.12.111',
      'amdkfd/kfd_queue.c:kfd_queue_acquire_buffers@6.12.118',
    ],
  },
  {
    id: 'svm_save_area',
    kernels: [{ from: '6.12.108', before: '6.13' }],
    gpus: {},
    queues: ['compute'],
    saved: 'area_in_svm_range',
    effect: 'refused',
    why: 'the save area is in an SVM range, and RESTORE of this kernel wants it before it is back',
    instead: 'a kernel without SVM, or another one',
    sources: [
      'amdkfd/kfd_process_queue_manager.c:kfd_criu_restore_queue@6.12.111',
      'amdkfd/kfd_queue.c:kfd_queue_buffer_svm_get@6.12.118',
    ],
  },
  {
    id: 'one_die_saved',
    kernels: [{ before: '6.16.4' }],
    gpus: { dies: 'several' },
    queues: ['compute'],
    mqds: 'one',
    evident: true,
    effect: 'refused',
    why: 'this kernel saves one of the compute dies, and the queue would never run again',
    instead: 'CPX mode',
    sources: ['amdkfd/kfd_mqd_manager_v9.c:checkpoint_mqd@6.12.118'],
  },
  {
    id: 'dies_not_taken',
    kernels: [{ from: '6.16.4' }],
    gpus: { dies: 'several' },
    queues: ['compute', 'sdma'],
    mqds: 'all',
    evident: true,
    probed: true,
    effect: 'refused',
    why: 'this kernel saves all compute dies, and RESTORE takes the size of one alone',
    instead: 'CPX mode from 7.3.4 on',
    sources: [
      'amdkfd/kfd_device_queue_manager.c:get_queue_checkpoint_info@7.3.4',
      'amdkfd/kfd_process_queue_manager.c:kfd_criu_restore_queue@7.3.4',
    ],
  },
  {
    id: 'partition_overrun',
    kernels: [{ from: '6.16.4', before: '7.3.4' }],
    gpus: { partition: true },
    queues: ['compute'],
    effect: 'refused',
    why: 'RESTORE of this kernel makes too little memory on a partition, and writes past it',
    instead: 'another kernel',
    sources: [
      'amdkfd/kfd_process_queue_manager.c:kfd_criu_restore_queue@7.2.13',
      'amdkfd/kfd_mqd_manager_v9.c:restore_mqd_v9_4_3@7.2.13',
    ],
  },
  {
    id: 'no_room_for_stack',
    kernels: [{ from: '7.2', before: '7.3.4' }],
    gpus: { gfx: gfx9 },
    queues: ['compute'],
    effect: 'refused',
    why: 'RESTORE of this kernel makes no room for the control stack, and the GPU writes past it',
    instead: 'another kernel',
    sources: [
      'amdkfd/kfd_mqd_manager_v9.c:mqd_manager_init_v9@7.2.13',
      'amdkfd/kfd_mqd_manager_v9.c:allocate_mqd@7.2.13',
    ],
  },
  {
    id: 'stack_lost',
    kernels: [{ from: '7.2' }],
    gpus: { gfx: gfx9 },
    queues: ['compute'],
    saved: 'stopped_without_stack',
    evident: true,
    effect: 'refused',
    why: 'a dispatch was stopped and its control stack was not saved, so it would never end',
    instead: 'a checkpoint while no dispatch runs',
    sources: ['amdkfd/kfd_mqd_manager_v9.c:mqd_manager_init_v9@7.3.4'],
  },
  {
    id: 'partition_place',
    kernels: [{}],
    gpus: { partition: true },
    queues: ['sdma'],
    effect: 'placed',
    why: 'RESTORE takes the queue on the partition with the same number alone',
    instead: 'the same partition of another GPU',
    sources: ['amdkfd/kfd_device_queue_manager.c:allocate_doorbell@7.3.4'],
  },
];
