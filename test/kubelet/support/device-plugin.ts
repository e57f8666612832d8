/** A device plugin for the simulated GPUs, as AMD's for real ones: it says which nodes a pod's container gets. */

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import {
  type Client,
  credentials,
  loadPackageDefinition,
  Server,
  ServerCredentials,
  type ServerWritableStream,
  type ServiceDefinition,
  type sendUnaryData,
} from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { until } from '../../e2e/support/command.js';

export const gpuResource = 'amd.com/gpu';

const contract = '/repo/test/kubelet/support/device-plugin.proto';
const folder = '/var/lib/kubelet/device-plugins';
const endpoint = 'lab-gpu.sock';

type Registration = new (
  address: string,
  credentials: unknown,
) => Client & {
  Register: (request: object, done: (error: Error | null, answer: unknown) => void) => void;
};

interface Contract {
  readonly Registration: Registration;
  readonly DevicePlugin: { readonly service: ServiceDefinition };
}

type List = ServerWritableStream<object, { devices: { ID: string; health: string }[] }>;

interface AllocateCall {
  readonly request: { readonly container_requests: readonly { devices_ids: string[] }[] };
}

/** By device nodes, as AMD's device plugin, or by CDI names. */
export type Means = 'nodes' | 'cdi';

export class DevicePlugin {
  /** By GPU: false where it must not be given away. */
  readonly #healthy: boolean[];
  readonly #means: Means;
  readonly #v1beta1: Contract;
  #server: Server | undefined;
  #list: List | undefined;

  constructor(gpus: number, means: Means) {
    this.#healthy = Array.from({ length: gpus }, () => true);
    this.#means = means;
    const definition = loadSync(contract, { keepCase: true, longs: Number });
    this.#v1beta1 = (loadPackageDefinition(definition) as unknown as { v1beta1: Contract }).v1beta1;
  }

  /** Tells a kubelet that has just started. It answers others before it takes plugins, and removes their sockets. */
  async register(): Promise<void> {
    let failure: unknown;
    const taken = async () => {
      try {
        await this.#registerOnce();
        return true;
      } catch (error) {
        failure = error;
        return false;
      }
    };
    await until('the kubelet takes the device plugin', taken, 90, 500).catch((error) => {
      throw new Error(`${String(error)}: ${String(failure)}`);
    });
  }

  async #registerOnce(): Promise<void> {
    this.stop();
    const server = new Server();
    server.addService(this.#v1beta1.DevicePlugin.service, {
      GetDevicePluginOptions: (_call: object, done: sendUnaryData<object>) => done(null, {}),
      ListAndWatch: (list: List) => {
        this.#list = list;
        this.#tell();
      },
      Allocate: (call: AllocateCall, done: sendUnaryData<object>) => {
        const wanted = call.request.container_requests;
        done(null, {
          container_responses: wanted.map(({ devices_ids }) => this.#given(devices_ids)),
        });
      },
    });
    this.#server = server;
    const socket = join(folder, endpoint);
    rmSync(socket, { force: true });
    const bind = promisify(server.bindAsync.bind(server));
    await bind(`unix://${socket}`, ServerCredentials.createInsecure());
    await this.#introduce();
    await until('the list of devices', () => this.#list !== undefined, 10);
  }

  /** Only these GPUs are for pods that come. */
  offer(...gpus: readonly number[]): void {
    for (const gpu of this.#healthy.keys()) this.#healthy[gpu] = gpus.includes(gpu);
    this.#tell();
  }

  stop(): void {
    this.#server?.forceShutdown();
    this.#server = undefined;
    this.#list = undefined;
  }

  async #introduce(): Promise<void> {
    const address = `unix://${join(folder, 'kubelet.sock')}`;
    const client = new this.#v1beta1.Registration(address, credentials.createInsecure());
    const register = promisify(client.Register.bind(client));
    const request = { version: 'v1beta1', endpoint, resource_name: gpuResource, options: {} };
    try {
      await register(request);
    } finally {
      client.close();
    }
  }

  #tell(): void {
    this.#list?.write({
      devices: this.#healthy.map((healthy, gpu) => ({
        ID: String(gpu),
        health: healthy ? 'Healthy' : 'Unhealthy',
      })),
    });
  }

  #given(ids: readonly string[]): object {
    if (this.#means === 'cdi')
      return { cdi_devices: ids.map((id) => ({ name: `amd.com/gpu=${id}` })) };
    const ofGpu = (id: string) => [`/dev/dri/card${id}`, `/dev/dri/renderD${128 + Number(id)}`];
    const paths = ['/dev/kfd', ...ids.flatMap(ofGpu)];
    return {
      devices: paths.map((path) => ({ container_path: path, host_path: path, permissions: 'rw' })),
    };
  }
}
