/** Files of deploy/kubernetes, as an administrator edits them, and the image of the DaemonSet. */

import { mkdirSync, readFileSync } from 'node:fs';
import { parseAllDocuments } from 'yaml';
import { run } from '../../e2e/support/command.js';
import { type Control, image } from '../../e2e/support/container.js';
import type { KubernetesObject } from './api-server.js';
import { nodeName } from './kubelet.js';
import { worker } from './pod.js';
import { ctr } from './state.js';

const folder = '/repo/deploy/kubernetes';
/** What deploy/kubernetes/context.sh has made. */
const context = '/repo/build/kubernetes';
const daemonImage = 'localhost/kfd-checkpoint:0.1.0';

function objectsIn(file: string, edit: (text: string) => string = (text) => text) {
  const documents = parseAllDocuments(edit(readFileSync(`${folder}/${file}`, 'utf8')));
  return documents.map((one) => one.toJS() as KubernetesObject);
}

/** Builds the image as docs/kubernetes.md says, on a base that needs no network, and gives it to containerd. */
export async function importDaemonImage(): Promise<void> {
  const scratch = '/var/lib/containers/daemon-image';
  mkdirSync(scratch, { recursive: true });
  await run('podman', 'load', '-q', '-i', '/repo/build/lab/programs/image.tar');
  const base = ['--build-arg', `BASE=${image}`];
  await run('podman', 'build', '-q', ...base, '-t', daemonImage, context);
  await run('podman', 'save', '-q', '-o', `${scratch}/image.tar`, daemonImage);
  await run('podman', 'rmi', '-f', daemonImage);
  await ctr('image', 'import', `${scratch}/image.tar`);
  await run('rm', '-r', scratch);
}

/** Namespace, RuntimeClass and DaemonSet: pods may name the image that they are restored from. */
export function daemonSet(): KubernetesObject[] {
  return objectsIn('kfd-checkpoint.yaml', (text) =>
    text
      .replaceAll(/registry\.example\/kfd-checkpoint:\S+/g, daemonImage)
      .replace('POD_ANNOTATIONS, value: "no"', 'POD_ANNOTATIONS, value: "yes"'),
  );
}

interface PodObject extends KubernetesObject {
  readonly spec: { readonly containers: readonly object[] };
}

/** `pod.yaml` or `restored-pod.yaml` with a program of ours, on the network of the node: the cluster has no other. */
export function samplePod(file: string, { folder: path }: Control): KubernetesObject {
  const [pod] = objectsIn(file) as PodObject[];
  if (pod === undefined) throw new Error(`${file} has no pod`);
  const mount = { name: 'control', mountPath: '/ctl' };
  const containers = pod.spec.containers.map((one) => ({
    ...one,
    image,
    imagePullPolicy: 'Never',
    command: file === 'pod.yaml' ? worker : ['false'],
    volumeMounts: [mount],
  }));
  const spec = {
    ...pod.spec,
    nodeName,
    hostNetwork: true,
    enableServiceLinks: false,
    automountServiceAccountToken: false,
    terminationGracePeriodSeconds: 2,
    containers,
    volumes: [{ name: 'control', hostPath: { path } }],
  };
  return { ...pod, spec } as KubernetesObject;
}
