/**
 * KFD shows a process the GPUs whose render nodes its cgroup lets it open at the moment when it opens `/dev/kfd`, and
 * RESTORE wants exactly the recorded ones. But crun with cgroupfs sets a container's device rules only after CRIU, so a
 * container that was given some of the host's GPUs would see all of them (runc sets its rules before). So a restored
 * task opens `/dev/kfd` in a cgroup below its own with a device filter, and then returns.
 */

import { access, mkdir, readFile, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { KfdError } from '../../errors.js';
import type { HostGpu } from '../../gpu/host.js';
import { native } from '../../native.js';

const cgroups = '/sys/fs/cgroup';

export class DeviceFilter {
  readonly #pid: number;
  readonly #own: string;
  readonly #filtered: string;

  private constructor(pid: number, own: string) {
    this.#pid = pid;
    this.#own = own;
    this.#filtered = join(own, `kfd-checkpoint-${pid}`);
  }

  /**
   * Moves task `pid` (of the host) to where it can open the render nodes of `gpus` at most. `root`: the cgroups. Throws
   * E_UNSUPPORTED_STATE, Node's error.
   */
  static async enter(
    pid: number,
    gpus: readonly HostGpu[],
    root: string = cgroups,
  ): Promise<DeviceFilter> {
    const filter = new DeviceFilter(pid, await cgroupOf(pid, root));
    await mkdir(filter.#filtered);
    try {
      const minors = gpus.map(({ record }) => record.render_minor);
      native().attachDeviceFilter(filter.#filtered, minors);
      await writeFile(join(filter.#filtered, 'cgroup.procs'), String(pid));
    } catch (error) {
      await rmdir(filter.#filtered);
      throw error;
    }
    return filter;
  }

  /** Moves the task back, if it still lives, and removes the cgroup. Throws Node's error. */
  async leave(): Promise<void> {
    try {
      await writeFile(join(this.#own, 'cgroup.procs'), String(this.#pid));
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
    }
    await rmdir(this.#filtered);
  }
}

async function cgroupOf(pid: number, root: string): Promise<string> {
  const unified = await access(join(root, 'cgroup.controllers')).then(
    () => true,
    () => false,
  );
  const path = /^0::(\/.*)$/m.exec(await readFile(`/proc/${pid}/cgroup`, 'utf8'))?.[1];
  if (unified && path !== undefined) return join(root, path);
  const reason = "container: it was given some of the host's GPUs, and this host has cgroup v1";
  throw new KfdError('E_UNSUPPORTED_STATE', reason, {
    hint: 'boot with cgroup v2 (systemd.unified_cgroup_hierarchy=1), or give the container all GPUs',
  });
}
