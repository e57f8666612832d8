/** A pod with a GPU container, saved and restored through Kubernetes' interface: what a kubelet asks of containerd. */

import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { run, until } from './command.js';
import { Control } from './container.js';
import { type Containerd, nextRelease, serveKubernetes, shimsLeft } from './containerd.js';
import { Pod } from './cri.js';

const programs = '/repo/build/lab/programs/image.tar';
const pauseImage = 'localhost/pause:latest';

/** Of containerd's configuration: the image of sandboxes. */
export const pinnedPause = `[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "${pauseImage}"
`;

const tables = `${pinnedPause}[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.kfd]
  container_annotations = ["io.kfd-checkpoint.*"]
  pod_annotations = ["io.kfd-checkpoint.*/*"]
`;

/**
 * Gives Kubernetes the test programs' image, and one of the same with a command that does not end, as a pod's own
 * container needs it.
 */
export async function importPodImages(): Promise<void> {
  const make = `set -e
    rm -rf /tmp/pause && mkdir /tmp/pause && cd /tmp/pause && tar -xf ${programs}
    old=$(ls | grep -x '[0-9a-f]*\\.json')
    sed -i 's#"Cmd":\\["/bin/sh"\\]#"Cmd":["sleep","1000000"]#' "$old"
    new=$(sha256sum "$old" | cut -d ' ' -f 1).json
    mv "$old" "$new"
    printf '[{"Config":"%s","RepoTags":["${pauseImage}"],"Layers":["layer.tar"]}]' "$new" >manifest.json
    tar -cf /tmp/pause.tar .`;
  await run('sh', '-c', make);
  for (const archive of ['/tmp/pause.tar', programs]) {
    await run('ctr', '-n', 'k8s.io', 'images', 'import', archive);
  }
}

/** What gives the GPU to the container that is saved, and to the one that continues it. */
export interface PodGpus {
  readonly first: readonly string[];
  readonly again: readonly string[];
  /** Looks at the first process of the latter. */
  readonly look: (pid: number) => void;
}

/** As in docs/kubernetes.md: the annotation is the pod's, which its sandbox gets, too. */
async function podOfItsOwn(
  image: string,
  control: Control,
  command: string[],
  gpus: PodGpus | undefined,
): Promise<void> {
  const annotations = { 'io.kfd-checkpoint.restore-from/job': image };
  const pod = await Pod.start('pod-again', 'kfd', annotations);
  const job = await pod.run('job', control.folder, command, { gpu: gpus?.again });
  assert.match(await control.ask('verify'), /^verified .*barrier=completed/);
  await pod.remove(job);
  await pod.end();
}

/** Restarts the daemon for it. There must be no other container. */
export async function podLife(containerd: Containerd, gpus?: PodGpus): Promise<void> {
  // That of the distribution has lines of another version.
  mkdirSync('/etc/containerd', { recursive: true });
  writeFileSync('/etc/containerd/config.toml', 'version = 3\n');
  await run('kfd-checkpoint', 'configure', 'containerd', '--containerd', '2.1');
  serveKubernetes(tables);
  await containerd.restart(nextRelease);
  await importPodImages();

  const control = new Control('pod');
  mkdirSync(control.folder, { recursive: true });
  const pod = await Pod.start('pod', 'kfd');
  const command = ['gpu-worker', '--vram-mib', '16', '--pending-barrier'];
  const first = await pod.run('first', control.folder, command, { gpu: gpus?.first });
  await control.ready();
  const proxies = (await shimsLeft()).filter((line) => line.includes('dist/shim/'));
  assert.equal(proxies.length, 1, `one proxy for all of a pod: ${proxies.join(', ')}`);
  const archive = '/tmp/pod-checkpoint.tar';
  await pod.checkpoint(first, archive);
  assert.match(await control.ask('verify'), /^verified .*barrier=completed/);
  await pod.remove(first);

  const folder = '/tmp/pod-checkpoint';
  mkdirSync(folder);
  await run('tar', '-C', folder, '-xf', archive);
  const image = `${folder}/checkpoint`;
  await run('kfd-checkpoint', 'verify', image);
  const again = await pod.run('again', control.folder, command, {
    annotations: { 'io.kfd-checkpoint.restore-from': image },
    gpu: gpus?.again,
  });
  assert.match(await control.ask('verify'), /^verified .*barrier=completed/);
  gpus?.look(Number(/^\d+/m.exec(await run('ctr', '-n', 'k8s.io', 'task', 'ps', again))?.[0]));
  await pod.remove(again);
  await pod.end();
  await podOfItsOwn(image, control, command, gpus);
  await until('the end of the shims', async () => (await shimsLeft()).length === 0, 20);
}
