/** CRI-O in the guest, set up as an administrator of a node would. It has podman's store of images. */

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client, credentials } from '@grpc/grpc-js';
import { run, until } from '../../e2e/support/command.js';
import { Daemon, daemonLogs } from '../../kubelet/support/daemon.js';

/** What test/crio.sh has put where the guest sees it. */
const given = '/repo/build/crio';
export const program = `${given}/crio`;
const listen = '/run/crio/crio.sock';
export const socket = `unix://${listen}`;

/** By this annotation of a pod its containers get devices, where CRI-O allows the annotation and the nodes. */
export const devicesAnnotation = 'io.kubernetes.cri-o.Devices';

/** Of any image that is there: a pod whose namespaces CRI-O pins has no container of its own. */
const pauseImage = 'localhost/gpu-worker:latest';

const runtime = (name: string) => `[crio.runtime.runtimes.${name}]
runtime_path = "/usr/bin/${name}"
allowed_annotations = ["${devicesAnnotation}"]
`;

const configuration = `[crio]
internal_wipe = false
[crio.api]
listen = "${listen}"
[crio.runtime]
default_runtime = "crun"
cgroup_manager = "cgroupfs"
conmon_cgroup = "pod"
pinns_path = "${given}/pinns"
allowed_devices = ["/dev/kfd", "/dev/dri/renderD128"]
${runtime('crun')}${runtime('runc')}[crio.image]
pause_image = "${pauseImage}"
[crio.checkpoint_restore]
container_level_enabled = "checkpoint_restore"
`;

const hook = '/usr/share/containers/oci/hooks.d/50-kfd-checkpoint.json';

/** CRI-O comes to a host that is set up for podman, and does not start before that has been done again. */
export async function setUp(): Promise<void> {
  if (existsSync('/etc/crio')) return;
  assert.ok(existsSync(hook), 'podman has its hook, with which CRI-O does not start');
  mkdirSync('/etc/crio', { recursive: true });
  writeFileSync('/etc/crio/crio.conf', configuration);
  await assert.rejects(startCrio(), /has ended/);
  assert.match(readFileSync(join(daemonLogs, 'crio.log'), 'utf8'), /unknown stage \W*precreate/);
  await run('kfd-checkpoint', 'configure');
}

/** Whether somebody serves there. CRI-O listens before it knows whether it can start. */
async function isServed(): Promise<boolean> {
  const client = new Client(socket, credentials.createInsecure());
  try {
    await promisify(client.waitForReady.bind(client))(Date.now() + 1000);
    return true;
  } catch {
    return false;
  } finally {
    client.close();
  }
}

/** Returns when it answers. */
export async function startCrio(): Promise<Daemon> {
  const daemon = new Daemon(program, []);
  const answers = () => {
    daemon.assertAlive();
    return isServed();
  };
  try {
    await until('CRI-O', answers, 60);
  } catch (error) {
    await daemon.end();
    throw error;
  }
  return daemon;
}

/** An image of a checkpoint's archive, by the steps that `check` prints, in podman's words. */
export async function imageOf(archive: string, annotation: string, name: string): Promise<void> {
  const context = '/tmp/crio-image';
  mkdirSync(context, { recursive: true });
  await run('cp', archive, `${context}/checkpoint.tar`);
  writeFileSync(`${context}/Containerfile`, 'FROM scratch\nADD checkpoint.tar /\n');
  await run('podman', 'build', '-q', '--annotation', annotation, '-t', name, context);
  await run('rm', '-r', context);
}
