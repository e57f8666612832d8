/** A node of Kubernetes in the guest: containerd with our runtime, a device plugin and a kubelet. */

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { attempt, run, until } from '../../e2e/support/command.js';
import {
  Containerd,
  daemonLog,
  nextRelease,
  serveKubernetes,
  shimsLeft,
} from '../../e2e/support/containerd.js';
import { importPodImages, pinnedPause } from '../../e2e/support/containerd-cri.js';
import { type Gpu, loadGpu } from '../../e2e/support/gpu.js';
import { underSystemd } from '../../e2e/support/guest.js';
import { install, uninstall } from '../../e2e/support/product.js';
import { assertNothingLeft, keepEvidence as keepWith } from '../../e2e/support/suite.js';
import { ApiServer, kubeconfig } from './api-server.js';
import { ContainerdUnit } from './containerd-unit.js';
import { daemonLogs } from './daemon.js';
import { DevicePlugin, type Means } from './device-plugin.js';
import { checkpoints, forgetStaticPods, Kubelet, type KubeletOptions } from './kubelet.js';
import { ctr } from './state.js';

/** A kubelet without an API server knows no RuntimeClass: all its pods have the runtime of this name. */
const ourDefault = `[plugins."io.containerd.cri.v1.runtime".containerd]
  default_runtime_name = "kfd"
`;

/** Releases from 2.2.7 and 2.3.4 on restore a pod by its image only then; older ones do not know it. */
const allowRestoreByImage = `[plugins."io.containerd.cri.v1.runtime"]
  enable_experimental_restore_via_create = true
`;

/** What a program answers whose contents are right, and whose dispatch was finished after a restore. */
export const sound = /^verified .*barrier=completed/;

/** containerd's own file, as an administrator has it: nothing is changed but who makes cgroups. */
export const ownConfig = underSystemd
  ? `version = 3

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = 'io.containerd.runc.v2'
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
    SystemdCgroup = true
`
  : 'version = 3\n';

export const ownConfigPath = '/etc/containerd/config.toml';

/** That of AMD's GPU operator for nodes with a GPU. */
const gpuLabel = 'feature.node.kubernetes.io/amd-gpu=true';

/** By hand, as docs/kubernetes.md says. */
const setUp = () => {
  const how = ['--edit', '--pod-annotations', '--containerd', '2.1'];
  return run('kfd-checkpoint', 'configure', 'containerd', ...how);
};

export interface NodeOptions {
  readonly gpu?: Gpu;
  /** How many GPUs there are. */
  readonly gpus?: number;
  readonly means?: Means;
  /** With an API server, whose RuntimeClass names our runtime; the stock one is the default then. */
  readonly inCluster?: boolean;
  /** containerd may restore pods by their image. */
  readonly byImage?: boolean;
  /** In a cluster with controllers and a node on which nothing of ours is installed. */
  readonly bare?: boolean;
}

export class Node {
  readonly kubelet: Kubelet;
  readonly plugin: DevicePlugin;
  readonly #containerd: Containerd;
  readonly #api: ApiServer | undefined;
  readonly #bare: boolean;

  private constructor(parts: {
    kubelet: Kubelet;
    plugin: DevicePlugin;
    containerd: Containerd;
    api: ApiServer | undefined;
    bare: boolean;
  }) {
    this.kubelet = parts.kubelet;
    this.#bare = parts.bare;
    this.plugin = parts.plugin;
    this.#containerd = parts.containerd;
    this.#api = parts.api;
  }

  get api(): ApiServer {
    if (this.#api === undefined) throw new Error('the node is in no cluster');
    return this.#api;
  }

  static async start(options: NodeOptions = {}): Promise<Node> {
    if (options.gpu !== undefined) await loadGpu(options.gpu);
    mkdirSync('/etc/containerd', { recursive: true });
    // That of the distribution has lines of another version.
    writeFileSync(ownConfigPath, ownConfig);
    const { inCluster = false, bare = false, byImage = false } = options;
    await (bare ? uninstall() : setUp());
    const api = inCluster || bare ? await ApiServer.start({ withControllers: bare }) : undefined;
    const containerd = await Containerd.start();
    try {
      if (inCluster) await api?.makeRuntimeClass();
      const runtime = api === undefined ? ourDefault : '';
      serveKubernetes(pinnedPause + (byImage ? allowRestoreByImage : '') + runtime);
      await containerd.restart(nextRelease);
      // A kubelet may have removed them.
      await importPodImages();
      const kubelet = await Kubelet.start({
        ...(api === undefined ? {} : { kubeconfig }),
        ...(bare ? { label: gpuLabel } : {}),
      });
      const plugin = new DevicePlugin(options.gpus ?? 1, options.means ?? 'nodes');
      await plugin.register();
      return new Node({ kubelet, plugin, containerd, api, bare });
    } catch (error) {
      await containerd.stop();
      await api?.stop();
      throw error;
    }
  }

  /** Pods go on meanwhile. */
  restartContainerd(): Promise<void> {
    return this.#containerd.restart();
  }

  /** `body` while containerd is a unit of systemd, which others may restart, as on real nodes. */
  asUnit(body: (unit: ContainerdUnit) => Promise<void>): Promise<void> {
    return this.#containerd.restartAfter(() => ContainerdUnit.during(body));
  }

  /** With the device plugin, which has to tell the new kubelet of itself. */
  async restartKubelet(signal: 'SIGTERM' | 'SIGKILL', options: KubeletOptions = {}): Promise<void> {
    await this.kubelet.restart(signal, options);
    await this.plugin.register();
  }

  /** Deletes a pod of a file and waits for its end. */
  async deleted(name: string): Promise<void> {
    this.kubelet.delete(name);
    const gone = async () => (await this.kubelet.pod(name)) === undefined;
    await until(`the end of pod ${name}`, gone, 120, 250);
  }

  /** No process and no shim of any pod. */
  async assertEnded(): Promise<void> {
    const tasks = async () => (await ctr('task', 'ls', '-q')) === '';
    await until('the end of the tasks', tasks, 120, 500).catch(async () =>
      assert.equal(await ctr('task', 'ls'), ''),
    );
    await until('the end of the shims', async () => (await shimsLeft()).length === 0, 40).catch(
      async () => assert.deepEqual(await shimsLeft(), []),
    );
  }

  /** Also no session and no object on a GPU. */
  async assertNothingLeft(): Promise<void> {
    await this.assertEnded();
    await assertNothingLeft();
  }

  /** Also what a failed test has left. */
  async stop(): Promise<void> {
    this.plugin.stop();
    await this.kubelet.end();
    forgetStaticPods();
    for (const id of (await ctr('task', 'ls', '-q')).split('\n').filter(Boolean)) {
      await attempt('ctr', '-n', 'k8s.io', 'task', 'rm', '-f', id);
    }
    await this.#containerd.stop();
    await this.#api?.stop();
    for (const name of archives()) rmSync(join(checkpoints, name));
    if (this.#bare) await install();
  }
}

/** Names of what is in the kubelet's folder. */
export function archives(): string[] {
  return existsSync(checkpoints) ? readdirSync(checkpoints) : [];
}

/** Asks the kubelet for a checkpoint, which must succeed; the archive. */
export async function saved({ kubelet }: Node, pod: string, container?: string): Promise<string> {
  const { status, body } = await kubelet.checkpoint(pod, undefined, undefined, container);
  assert.equal(status, 200, body);
  const [archive = ''] = (JSON.parse(body) as { items: string[] }).items;
  assert.match(archive, /^\/var\/lib\/kubelet\/checkpoints\/checkpoint-.*\.tar$/);
  return archive;
}

/** Unpacks an archive by the steps that `check` prints for it. Returns the image directory. */
export async function unpacked(archive: string, folder: string): Promise<string> {
  const text = await run('kfd-checkpoint', 'check', '--format', 'json', archive);
  const { restorable, steps } = JSON.parse(text) as { restorable: boolean; steps: string[][] };
  assert.ok(restorable, text);
  for (const [program = '', ...words] of steps) {
    await run(program, ...words.map((word) => (word === 'FOLDER' ? folder : word)));
  }
  return join(folder, 'checkpoint');
}

/** What a failure left, with what containerd and its pods have logged. */
export const keepEvidence = (name: string): Promise<void> =>
  keepWith(name, daemonLogs, daemonLog, '/var/log/pods');
