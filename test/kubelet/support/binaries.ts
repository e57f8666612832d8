/** What test/kubelet.sh has put where the guest sees it. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';

const folder = '/repo/build/kubelet';

type Program = 'kubelet' | 'kube-apiserver' | 'etcd' | 'kube-scheduler' | 'kube-controller-manager';

export const binary = (program: Program): string => join(folder, program);

const given = (...programs: Program[]) => programs.every((one) => existsSync(binary(one)));

/** Why there is no API server here; undefined: there is one. */
export const noApiServer = given('kube-apiserver', 'etcd')
  ? undefined
  : 'neither KUBELET=DIR with kube-apiserver and etcd nor KUBE_APISERVER and ETCD were given';

/** Why there is no controller of DaemonSets here; undefined: there is one. */
export const noControllers =
  noApiServer ??
  (given('kube-scheduler', 'kube-controller-manager')
    ? undefined
    : 'KUBELET=DIR with kube-scheduler and kube-controller-manager was not given');
