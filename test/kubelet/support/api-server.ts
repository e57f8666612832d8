/** A cluster of one node: an API server over etcd. Pods name their node, where there is no scheduler. */

import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../../e2e/support/command.js';
import { binary } from './binaries.js';
import { Daemon } from './daemon.js';
import { type Answer, adminToken, ask } from './https.js';
import { nodeName, type PodStatus } from './kubelet.js';
import { manifest, type PodOptions } from './pod.js';

const folder = '/var/lib/containers/cluster';
const etcdAddress = 'http://127.0.0.1:2379';
const etcdPeers = 'http://127.0.0.1:2380';
const port = 6443;
const pods = '/api/v1/namespaces/default/pods';

/** How a kubelet finds it. */
export const kubeconfig = join(folder, 'kubeconfig');

export const runtimeClass = 'kfd';

/** Files that it starts with. */
function writeFiles(): void {
  const keys = generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'sec1', format: 'pem' },
  });
  writeFileSync(join(folder, 'accounts.pub'), keys.publicKey);
  writeFileSync(join(folder, 'accounts.key'), keys.privateKey, { mode: 0o600 });
  writeFileSync(join(folder, 'tokens'), `${adminToken},admin,admin,system:masters\n`);
  const cluster = { server: `https://127.0.0.1:${port}`, 'insecure-skip-tls-verify': true };
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'lab', cluster }],
    users: [{ name: 'admin', user: { token: adminToken } }],
    contexts: [{ name: 'lab', context: { cluster: 'lab', user: 'admin' } }],
    'current-context': 'lab',
  };
  writeFileSync(kubeconfig, JSON.stringify(config));
}

const flags = [
  `--etcd-servers=${etcdAddress}`,
  '--bind-address=127.0.0.1',
  // The guest has no network that one could be found in.
  '--advertise-address=10.77.1.1',
  '--endpoint-reconciler-type=none',
  `--secure-port=${port}`,
  `--cert-dir=${folder}/certificates`,
  '--service-cluster-ip-range=10.96.0.0/24',
  '--service-account-issuer=https://kubernetes.default.svc',
  `--service-account-key-file=${folder}/accounts.pub`,
  `--service-account-signing-key-file=${folder}/accounts.key`,
  `--token-auth-file=${folder}/tokens`,
  '--authorization-mode=AlwaysAllow',
  '--disable-admission-plugins=ServiceAccount',
  '--allow-privileged=true',
  '--profiling=false',
];

export interface ClusterOptions {
  /** A scheduler, and the controllers that make pods of a DaemonSet and remove them. */
  readonly withControllers?: boolean;
}

const asAdmin = ['--kubeconfig', kubeconfig, '--leader-elect=false', '--secure-port=0'];
const controllers = ['daemonset-controller', 'garbage-collector-controller'];

/** Where the API server has objects of these kinds. */
const collections: Readonly<Record<string, (namespace: string) => string>> = {
  Namespace: () => '/api/v1/namespaces',
  RuntimeClass: () => '/apis/node.k8s.io/v1/runtimeclasses',
  Pod: (namespace) => `/api/v1/namespaces/${namespace}/pods`,
  DaemonSet: (namespace) => `/apis/apps/v1/namespaces/${namespace}/daemonsets`,
};

export interface KubernetesObject {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
}

function collectionOf({ kind, metadata: { namespace = 'default' } }: KubernetesObject): string {
  const path = collections[kind]?.(namespace);
  if (path === undefined) throw new Error(`${kind}: not known here`);
  return path;
}

export class ApiServer {
  readonly #daemons: Daemon[] = [];

  /** Returns when it answers. */
  static async start({ withControllers = false }: ClusterOptions = {}): Promise<ApiServer> {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    writeFiles();
    const server = new ApiServer();
    try {
      server.#daemons.push(
        new Daemon(binary('etcd'), [
          `--data-dir=${folder}/etcd`,
          `--listen-client-urls=${etcdAddress}`,
          `--advertise-client-urls=${etcdAddress}`,
          `--listen-peer-urls=${etcdPeers}`,
          `--initial-advertise-peer-urls=${etcdPeers}`,
          `--initial-cluster=default=${etcdPeers}`,
          '--unsafe-no-fsync',
        ]),
        new Daemon(binary('kube-apiserver'), flags),
      );
      await until('the API server', () => server.#isReady(), 400, 500);
      if (withControllers) {
        server.#daemons.push(
          new Daemon(binary('kube-scheduler'), asAdmin),
          new Daemon(binary('kube-controller-manager'), [
            ...asAdmin,
            `--controllers=${controllers}`,
          ]),
        );
      }
    } catch (error) {
      await server.stop();
      throw error;
    }
    return server;
  }

  /** As `kubectl apply -f` of what is not there yet. */
  async apply(...objects: readonly KubernetesObject[]): Promise<void> {
    for (const object of objects) await this.create(collectionOf(object), object);
  }

  /** As `kubectl delete -f`. */
  async withdraw(object: KubernetesObject): Promise<void> {
    const path = `${collectionOf(object)}/${object.metadata.name}`;
    const { status, body } = await ask(port, path, { method: 'DELETE' });
    assert.ok(status === 200 || status === 202, body);
  }

  /** All pods of a namespace. */
  async podsIn(namespace: string): Promise<readonly PodStatus[]> {
    const { body } = await ask(port, `/api/v1/namespaces/${namespace}/pods`);
    return (JSON.parse(body) as { items: PodStatus[] }).items;
  }

  /** A RuntimeClass of ours. */
  async makeRuntimeClass(): Promise<void> {
    const metadata = { name: runtimeClass };
    const kind = 'RuntimeClass';
    const object = { apiVersion: 'node.k8s.io/v1', kind, metadata, handler: 'kfd' };
    await this.apply(object);
  }

  async create(path: string, body: object): Promise<void> {
    const answer = await ask(port, path, { method: 'POST', body });
    assert.equal(answer.status, 201, answer.body);
  }

  /** A pod on the node, with our RuntimeClass. */
  async run(pod: PodOptions): Promise<void> {
    const whole = { ...pod, nodeName, runtimeClassName: runtimeClass };
    await this.create(pods, manifest(whole));
  }

  /** Asks for the pod's end, as `kubectl delete pod` does. */
  async delete(name: string): Promise<void> {
    const { status, body } = await ask(port, `${pods}/${name}`, { method: 'DELETE' });
    assert.equal(status, 200, body);
  }

  /** Asks for the pod's end as `kubectl drain` does. */
  async evict(name: string): Promise<void> {
    const metadata = { name, namespace: 'default' };
    const eviction = { apiVersion: 'policy/v1', kind: 'Eviction', metadata };
    await this.create(`${pods}/${name}/eviction`, eviction);
  }

  /** Waits until it knows no such pod. */
  async gone(name: string): Promise<void> {
    const look = async () => (await this.pod(name)).status === 404;
    await until(`the end of pod ${name}`, look, 180, 500);
  }

  pod(name: string): Promise<Answer> {
    return ask(port, `${pods}/${name}`);
  }

  /** Waits until the node offers so many GPUs to pods. */
  async offers(resource: string, count: number): Promise<void> {
    const look = async () => {
      const { body } = await ask(port, `/api/v1/nodes/${nodeName}`);
      return JSON.parse(body).status?.allocatable?.[resource] === String(count);
    };
    await until(`a node with ${count} ${resource}`, look, 120, 500);
  }

  async stop(): Promise<void> {
    for (const daemon of this.#daemons.toReversed()) await daemon.end();
    rmSync(folder, { recursive: true, force: true });
  }

  async #isReady(): Promise<boolean> {
    for (const daemon of this.#daemons) daemon.assertAlive();
    const ready = await ask(port, '/readyz').catch(() => undefined);
    if (ready?.status !== 200) return false;
    return (await ask(port, '/api/v1/namespaces/default')).status === 200;
  }
}
