/** A kubelet, alone or of an API server, and what it says of its pods. */

import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../../e2e/support/command.js';
import { underSystemd } from '../../e2e/support/guest.js';
import { binary } from './binaries.js';
import { Daemon } from './daemon.js';
import { type Answer, ask } from './https.js';
import { manifest, type PodOptions } from './pod.js';

export const nodeName = 'lab';
export const kubeletRoot = '/var/lib/kubelet';
export const checkpoints = join(kubeletRoot, 'checkpoints');
const staticPods = '/etc/kubernetes/manifests';
const configFile = '/etc/kubernetes/kubelet.json';
const port = 10250;

/** A kubelet that starts must not find them. */
export function forgetStaticPods(): void {
  rmSync(staticPods, { recursive: true, force: true });
}

/** Of every call of the runtime, where a test needs no other limit: programs are slow in the guest. */
export const usualLimitS = 900;

const containerdSocket = 'unix:///run/containerd/containerd.sock';

/** Everybody may do everything, no pod is ever evicted, and nothing waits for a second. */
const settings = ({ limitS = usualLimitS, runtime = containerdSocket }: KubeletOptions) => ({
  apiVersion: 'kubelet.config.k8s.io/v1beta1',
  kind: 'KubeletConfiguration',
  address: '127.0.0.1',
  authentication: { anonymous: { enabled: true }, webhook: { enabled: false } },
  authorization: { mode: 'AlwaysAllow' },
  containerRuntimeEndpoint: runtime,
  runtimeRequestTimeout: `${limitS}s`,
  cgroupDriver: underSystemd ? 'systemd' : 'cgroupfs',
  staticPodPath: staticPods,
  fileCheckFrequency: '1s',
  syncFrequency: '5s',
  failSwapOn: false,
  makeIPTablesUtilChains: false,
  localStorageCapacityIsolation: false,
  enforceNodeAllocatable: [],
  evictionHard: {
    'memory.available': '0%',
    'nodefs.available': '0%',
    'nodefs.inodesFree': '0%',
    'imagefs.available': '0%',
    'imagefs.inodesFree': '0%',
  },
  imageGCHighThresholdPercent: 100,
  nodeStatusUpdateFrequency: '5s',
  volumeStatsAggPeriod: '-1s',
});

export interface PodStatus {
  readonly metadata: { readonly name: string; readonly uid: string };
  readonly status: {
    readonly phase?: string;
    readonly reason?: string;
    readonly message?: string;
    readonly containerStatuses?: readonly {
      readonly containerID?: string;
      readonly ready: boolean;
      readonly restartCount: number;
      readonly state?: object;
    }[];
  };
}

export interface KubeletOptions {
  /** Of each call of the runtime. */
  readonly limitS?: number;
  /** Where that listens; without it containerd. */
  readonly runtime?: string;
  /** How it finds the API server; without it there is none. */
  readonly kubeconfig?: string;
  /** Of its node. */
  readonly label?: string;
}

export class Kubelet {
  #daemon: Daemon;
  #options: KubeletOptions;

  private constructor(options: KubeletOptions) {
    this.#options = options;
    this.#daemon = spawnKubelet(options);
  }

  /** Returns when it answers. */
  static async start(options: KubeletOptions = {}): Promise<Kubelet> {
    for (const folder of [staticPods, kubeletRoot]) mkdirSync(folder, { recursive: true });
    const kubelet = new Kubelet(options);
    try {
      await kubelet.#answers();
    } catch (error) {
      await kubelet.end();
      throw error;
    }
    return kubelet;
  }

  /** Pods go on meanwhile. */
  async restart(signal: 'SIGTERM' | 'SIGKILL', options: KubeletOptions = {}): Promise<void> {
    await this.#daemon.end(signal);
    this.#options = { ...this.#options, ...options };
    this.#daemon = spawnKubelet(this.#options);
    await this.#answers();
  }

  end(): Promise<void> {
    return this.#daemon.end();
  }

  /** A pod of a file, which the kubelet is going to find. */
  add(pod: PodOptions): void {
    const draft = join('/etc/kubernetes', `${pod.name}.json`);
    writeFileSync(draft, JSON.stringify(manifest(pod)));
    renameSync(draft, join(staticPods, `${pod.name}.json`));
  }

  /** Takes the file away; the kubelet deletes its pod. */
  delete(name: string): void {
    rmSync(join(staticPods, `${name}.json`), { force: true });
  }

  async pod(name: string): Promise<PodStatus | undefined> {
    const { body } = await ask(port, '/pods');
    const { items } = JSON.parse(body) as { items: PodStatus[] | null };
    return items?.find(({ metadata }) => metadata.name === name);
  }

  /** Waits for the running container of a pod, other than `last`; its id. */
  async running(name: string, last?: string): Promise<string> {
    let seen: PodStatus | undefined;
    const look = async () => {
      this.#daemon.assertAlive();
      seen = await this.pod(name).catch(() => undefined);
      if (seen?.status.phase === 'Failed') throw new Error(JSON.stringify(seen.status));
      const [container] = seen?.status.containerStatuses ?? [];
      const id = container?.containerID?.replace(/^[a-z-]+:\/\//, '');
      const runs = container?.state !== undefined && 'running' in container.state;
      return runs && id !== last ? id : undefined;
    };
    try {
      return await until(`a container of ${name}`, look, 240, 250);
    } catch (error) {
      throw new Error(`${String(error)}: ${JSON.stringify(seen?.status)}`);
    }
  }

  /** The kubelet's checkpoint interface. `timeoutS` is the caller's word, as a part of the address. */
  checkpoint(
    pod: string,
    timeoutS?: number,
    signal?: AbortSignal,
    container = 'job',
  ): Promise<Answer> {
    const query = timeoutS === undefined ? '' : `?timeout=${timeoutS}`;
    const path = `/checkpoint/default/${pod}/${container}${query}`;
    return ask(port, path, { method: 'POST', ...(signal && { signal }) });
  }

  async #answers(): Promise<void> {
    const look = async () => {
      this.#daemon.assertAlive();
      return (await ask(port, '/healthz').catch(() => undefined))?.status === 200;
    };
    await until('the kubelet', look, 180, 250);
  }
}

function spawnKubelet(options: KubeletOptions): Daemon {
  const { kubeconfig, label } = options;
  writeFileSync(configFile, JSON.stringify(settings(options)));
  const cluster = [
    ...(kubeconfig === undefined ? [] : ['--kubeconfig', kubeconfig]),
    ...(label === undefined ? [] : ['--node-labels', label]),
  ];
  const flags = ['--config', configFile, '--hostname-override', nodeName, '--v', '3'];
  return new Daemon(binary('kubelet'), [...flags, ...cluster]);
}
