/** Queues that the kernel of this host cannot bring back, before the pause and after it. */

import type { Native } from '../../addon.js';
import { driverVersion, queuesOfProcess, readParameters } from '../../gpu/driver-state.js';
import type { Host } from '../../gpu/host.js';
import { lostQueues, type QueueHost } from '../../gpu/kernel-rules.js';
import type { KfdObjects } from '../../gpu/kfd-objects.js';
import { queueProbe } from '../../gpu/queue-probe.js';

/** Where it looks, which tests replace. */
export interface KernelSource {
  /** Folder of `/sys`. */
  readonly root: string;
  /** The addon's. Asked for queues on several compute dies alone. */
  readonly restoreTakes: Native['kfdRestoreTakes'];
}

export class KernelLimits {
  readonly #host: QueueHost;
  readonly #root: string;

  private constructor(host: QueueHost, root: string) {
    this.#host = host;
    this.#root = root;
  }

  static async of(host: Host, { root, restoreTakes }: KernelSource): Promise<KernelLimits> {
    const gpus = host.gpus.map(({ record }) => record);
    const parameters = await readParameters(root);
    const takes = queueProbe(gpus, restoreTakes);
    const driver = await driverVersion(root);
    const { kernelRelease } = host;
    return new KernelLimits({ kernelRelease, driver, gpus, parameters, takes }, root);
  }

  /** Reasons against a process that runs. Queues that sysfs does not show are found after the pause. */
  async beforePause(pid: number): Promise<string[]> {
    const queues = await queuesOfProcess(pid, this.#root);
    return lostQueues(queues, (id) => this.#gpu(id), this.#host);
  }

  /** Reasons against the queues of a state file. */
  afterPause({ queues, devices }: KfdObjects): string[] {
    return lostQueues(queues, (id) => this.#gpu(devices.get(id)), this.#host);
  }

  #gpu(gpuId: number | undefined) {
    return this.#host.gpus.find((gpu) => gpu.gpu_id === gpuId);
  }
}
