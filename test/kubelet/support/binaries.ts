/** What test/kubelet.sh has put where the guest sees it. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';

const folder = '/repo/build/kubelet';

type Program = 'kubelet' | 'kube-apiserver' | 'etcd';

export const binary = (program: Program): string => join(folder, program);

/** Why there is no API server here; undefined: there is one. */
export const noApiServer = (['kube-apiserver', 'etcd'] as const).every((one) =>
  existsSync(binary(one)),
)
  ? undefined
  : 'neither KUBELET=DIR with kube-apiserver and etcd nor KUBE_APISERVER and ETCD were given';
