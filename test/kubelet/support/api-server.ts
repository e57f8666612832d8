/** A cluster of one node: an API server over etcd. There is no scheduler and no controller: pods name their node. */

import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../../e2e/support/command.js';
import { binary } from './binaries.js';
import { Daemon } from './daemon.js';
import { type Answer, adminToken, ask } from './https.js';
import { nodeName } from './kubelet.js';
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

export class ApiServer {
  readonly #daemons: Daemon[] = [];

  /** Returns when it answers and has a RuntimeClass of ours. */
  static async start(): Promise<ApiServer> {
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
      await server.create('/apis/node.k8s.io/v1/runtimeclasses', {
        apiVersion: 'node.k8s.io/v1',
        kind: 'RuntimeClass',
        metadata: { name: runtimeClass },
        handler: 'kfd',
      });
    } catch (error) {
      await server.stop();
      throw error;
    }
    return server;
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
