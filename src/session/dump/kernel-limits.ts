/** Queues that the kernel of this host cannot bring back, before the pause and after it. */

import { queuesOfProcess, readParameters } from '../../gpu/driver-state.js';
import type { Host } from '../../gpu/host.js';
import { lostQueues, type QueueHost } from '../../gpu/kernel-rules.js';
import type { KfdObjects } from '../../gpu/kfd-objects.js';

/** A GPU of a process: by the id that the process knows, and by KFD's own. */
interface Device {
  readonly userGpuId: number;
  readonly actualGpuId: number;
}

export class KernelLimits {
  readonly #host: QueueHost;
  readonly #root: string;

  private constructor(host: QueueHost, root: string) {
    this.#host = host;
    this.#root = root;
  }

  /** `root`: folder of `/sys`, which tests replace. */
  static async of(host: Host, root = '/'): Promise<KernelLimits> {
    const gpus = host.gpus.map(({ record }) => record);
    const parameters = await readParameters(root);
    return new KernelLimits({ kernelRelease: host.kernelRelease, gpus, parameters }, root);
  }

  /** Reasons against a process that runs. Queues that sysfs does not show are found after the pause. */
  async beforePause(pid: number): Promise<string[]> {
    const queues = await queuesOfProcess(pid, this.#root);
    return lostQueues(queues, (id) => this.#gpu(id), this.#host);
  }

  /** Reasons against the queues of a state file. */
  afterPause({ queues }: KfdObjects, devices: readonly Device[] = []): string[] {
    const actual = new Map(devices.map((one) => [one.userGpuId, one.actualGpuId]));
    return lostQueues(queues, (id) => this.#gpu(actual.get(id)), this.#host);
  }

  #gpu(gpuId: number | undefined) {
    return this.#host.gpus.find((gpu) => gpu.gpu_id === gpuId);
  }
}
