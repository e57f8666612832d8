/** Pods of one container called `job`, which runs gpu-worker and is given a GPU by the device plugin. */

import { mkdirSync } from 'node:fs';
import { Control, image } from '../../e2e/support/container.js';
import { gpuResource } from './device-plugin.js';

export const worker = ['gpu-worker', '--vram-mib', '16', '--pending-barrier'];

export interface PodOptions {
  readonly name: string;
  /** Where the container's /ctl is on the host. */
  readonly control: Control;
  readonly command?: readonly string[];
  readonly annotations?: Readonly<Record<string, string>>;
  readonly image?: string;
  /** The image comes from its registry. */
  readonly pull?: boolean;
  /** Of an API server's pod only: where, and with which RuntimeClass. */
  readonly nodeName?: string;
  readonly runtimeClassName?: string;
}

/** A folder for a new container. */
export function newControl(name: string): Control {
  const control = new Control(name);
  mkdirSync(control.folder, { recursive: true });
  return control;
}

/** The annotation of docs/kubernetes.md. */
export const restoreFrom = (folder: string): Readonly<Record<string, string>> => ({
  'io.kfd-checkpoint.restore-from/job': folder,
});

/** It uses the host's network, so that nothing has to be set up for it. */
export function manifest(pod: PodOptions): object {
  const { name, control, annotations = {}, nodeName, runtimeClassName } = pod;
  const gpu = { [gpuResource]: '1' };
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: 'default', annotations },
    spec: {
      ...(nodeName === undefined ? {} : { nodeName }),
      ...(runtimeClassName === undefined ? {} : { runtimeClassName }),
      hostNetwork: true,
      enableServiceLinks: false,
      automountServiceAccountToken: false,
      terminationGracePeriodSeconds: 2,
      containers: [
        {
          name: 'job',
          image: pod.image ?? image,
          imagePullPolicy: pod.pull ? 'Always' : 'Never',
          command: pod.command ?? worker,
          resources: { limits: gpu, requests: gpu },
          volumeMounts: [{ name: 'control', mountPath: '/ctl' }],
        },
      ],
      volumes: [{ name: 'control', hostPath: { path: control.folder } }],
    },
  };
}
