/** A pod through Kubernetes' interface of containerd or CRI-O, as a kubelet makes it. */

import { mkdirSync } from 'node:fs';
import { promisify } from 'node:util';
import { type Client, credentials, loadPackageDefinition } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { image } from './container.js';

const contract = '/repo/test/e2e/support/cri.proto';
const containerdSocket = 'unix:///run/containerd/containerd.sock';
const logs = '/tmp/pod-logs';

type Call = (request: object, done: (error: Error | null, answer: unknown) => void) => void;
type RuntimeService = new (address: string, credentials: unknown) => Client & Record<string, Call>;

/** Network and processes as a pod of the host network has them: nothing has to be set up for it. */
const namespaces = { namespace_options: { network: 2, pid: 1 } };

const usualGpu = ['/dev/kfd', '/dev/dri/renderD128'];

export interface ContainerOptions {
  readonly annotations?: Readonly<Record<string, string>>;
  /** Nodes and CDI names. */
  readonly gpu?: readonly string[] | undefined;
  /** Its image. */
  readonly from?: string;
  readonly mounts?: readonly { readonly container_path: string; readonly host_path: string }[];
}

export class Pod {
  readonly #service: InstanceType<RuntimeService>;
  readonly #config: object;
  #id = '';

  private constructor(name: string, annotations: Readonly<Record<string, string>>, socket: string) {
    const definition = loadSync(contract, { keepCase: true, longs: Number });
    const { runtime } = loadPackageDefinition(definition) as unknown as {
      runtime: { v1: { RuntimeService: RuntimeService } };
    };
    this.#service = new runtime.v1.RuntimeService(socket, credentials.createInsecure());
    const metadata = { name, uid: name, namespace: 'default' };
    const linux = { security_context: namespaces };
    this.#config = { metadata, annotations, log_directory: logs, linux };
  }

  /** With the runtime that `handler` names in the configuration of who listens at `socket`. */
  static async start(
    name: string,
    handler: string,
    annotations: Readonly<Record<string, string>> = {},
    socket = containerdSocket,
  ): Promise<Pod> {
    mkdirSync(logs, { recursive: true });
    const pod = new Pod(name, annotations, socket);
    const request = { config: pod.#config, runtime_handler: handler };
    const { pod_sandbox_id: id } = (await pod.#call('RunPodSandbox', request)) as {
      pod_sandbox_id: string;
    };
    pod.#id = id;
    return pod;
  }

  get id(): string {
    return this.#id;
  }

  /** A container with this folder of the host as its /ctl; its id. */
  async run(
    name: string,
    folder: string,
    command: readonly string[],
    { annotations = {}, gpu = usualGpu, from = image, mounts = [] }: ContainerOptions = {},
  ): Promise<string> {
    const isNode = (name: string) => name.startsWith('/');
    const devices = gpu.filter(isNode).map((path) => ({
      container_path: path,
      host_path: path,
      permissions: 'rwm',
    }));
    const config = {
      metadata: { name },
      image: { image: from },
      command,
      annotations,
      mounts: [{ container_path: '/ctl', host_path: folder }, ...mounts],
      devices,
      CDI_devices: gpu.filter((name) => !isNode(name)).map((name) => ({ name })),
      log_path: `${name}.log`,
      linux: { security_context: namespaces },
    };
    const request = { pod_sandbox_id: this.#id, config, sandbox_config: this.#config };
    const container = await this.#call('CreateContainer', request);
    await this.#call('StartContainer', container as object);
    return (container as { container_id: string }).container_id;
  }

  /** Into the archive `location`. */
  async checkpoint(id: string, location: string): Promise<void> {
    await this.#call('CheckpointContainer', { container_id: id, location, timeout: 200 });
  }

  async remove(id: string): Promise<void> {
    await this.#call('StopContainer', { container_id: id });
    await this.#call('RemoveContainer', { container_id: id });
  }

  async end(): Promise<void> {
    await this.#call('StopPodSandbox', { pod_sandbox_id: this.#id });
    await this.#call('RemovePodSandbox', { pod_sandbox_id: this.#id });
    this.#service.close();
  }

  #call(method: string, request: object): Promise<unknown> {
    const call = this.#service[method] as Call;
    return promisify(call.bind(this.#service))(request);
  }
}
