/** deploy/kubernetes: the manifests as python3 reads them, and node.sh against a root folder. */

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { cp, mkdir, readdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { repository, temporaryFolder } from './paths.js';

const folder = join(repository, 'deploy/kubernetes');
const withYaml = spawnSync('python3', ['-c', 'import yaml']).status === 0;
const skip = withYaml ? false : 'python3 has no yaml';

interface Container {
  readonly name: string;
  readonly image: string;
  readonly args?: readonly string[];
  readonly env?: readonly { name: string; value: unknown }[];
  readonly securityContext?: { readonly privileged?: boolean };
  readonly lifecycle?: { readonly preStop: { readonly exec: { readonly command: string[] } } };
}

interface PodSpec {
  readonly runtimeClassName?: string;
  readonly nodeSelector?: object;
  readonly hostPID?: boolean;
  readonly initContainers?: readonly Container[];
  readonly containers: readonly Container[];
}

interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly annotations?: object;
  };
  readonly handler?: string;
  readonly scheduling?: { readonly nodeSelector: object };
  readonly spec: PodSpec & {
    readonly selector: { readonly matchLabels: object };
    readonly template: { readonly metadata: { readonly labels: object }; readonly spec: PodSpec };
  };
}

function parsed(name: string): Manifest[] {
  const code = 'import json, sys, yaml; json.dump(list(yaml.safe_load_all(sys.stdin)), sys.stdout)';
  const input = readFileSync(join(folder, name));
  return JSON.parse(execFileSync('python3', ['-c', code], { input, encoding: 'utf8' }));
}

test('the DaemonSet installs before it waits, and undoes it at its end', { skip }, () => {
  const [namespace, runtimeClass, daemonSet] = parsed('kfd-checkpoint.yaml');
  assert.ok(namespace && runtimeClass && daemonSet);
  const kinds = [namespace, runtimeClass, daemonSet].map(
    ({ apiVersion, kind }) => `${apiVersion} ${kind}`,
  );
  assert.deepEqual(kinds, ['v1 Namespace', 'node.k8s.io/v1 RuntimeClass', 'apps/v1 DaemonSet']);
  assert.deepEqual([runtimeClass.metadata.name, runtimeClass.handler], ['kfd', 'kfd']);
  assert.equal(daemonSet.metadata.namespace, namespace.metadata.name);
  const { selector, template } = daemonSet.spec;
  assert.deepEqual(selector.matchLabels, template.metadata.labels);
  assert.deepEqual(runtimeClass.scheduling?.nodeSelector, template.spec.nodeSelector);
  assert.equal(template.spec.hostPID, true, 'nsenter finds the node by its first process');
  const [install, wait] = [template.spec.initContainers?.[0], template.spec.containers[0]];
  assert.ok(install && wait);
  assert.deepEqual([install.args, wait.args], [['install'], ['wait']]);
  assert.deepEqual(wait.lifecycle?.preStop.exec.command, ['/node.sh', 'remove']);
  assert.deepEqual([install.image, install.env], [wait.image, wait.env]);
  for (const one of [install, wait]) assert.equal(one.securityContext?.privileged, true);
  for (const { name, value } of install.env ?? []) {
    assert.equal(typeof value, 'string', `${name}: Kubernetes takes texts alone`);
    assert.match(readFileSync(join(folder, 'node.sh'), 'utf8'), new RegExp(`\\$\\{${name}:-`));
  }
});

test('the example pods use the RuntimeClass; the restored one names its container', {
  skip,
}, () => {
  const [[pod], [again]] = [parsed('pod.yaml'), parsed('restored-pod.yaml')];
  assert.ok(pod && again);
  const [first] = pod.spec.containers;
  assert.deepEqual(again.spec.containers, pod.spec.containers);
  for (const { spec } of [pod, again]) assert.equal(spec.runtimeClassName, 'kfd');
  const names = Object.keys(again.metadata.annotations ?? {});
  assert.deepEqual(names, [`io.kfd-checkpoint.restore-from/${first?.name}`]);
});

interface Node {
  readonly root: string;
  readonly calls: () => string[];
  run(
    args: readonly string[],
    env?: Record<string, string>,
  ): { status: number | null; stderr: string };
}

/** Stands for the command line of the installation. Its `configure` changes containerd's file, its `check` fails. */
const program = `#!/bin/sh
echo "kfd-checkpoint $*" >>"$CALLS"
case $1 in
  configure) echo '# kfd' >>"$ROOT/etc/containerd/config.toml" ;;
  check) exit 3 ;;
esac
`;

/**
 * A node in a folder, and the payload of the image. install.sh is the real one. What runs on the node runs here, with
 * files of the folder.
 */
async function node(t: TestContext): Promise<Node> {
  const world = await temporaryFolder(t);
  const [root, image, calls] = [join(world, 'root'), join(world, 'image'), join(world, 'calls')];
  await mkdir(join(root, 'etc/containerd'), { recursive: true });
  await mkdir(join(world, 'proc/7'), { recursive: true });
  await writeFile(join(root, 'etc/containerd/config.toml'), 'version = 3\n');
  await writeFile(join(world, 'proc/7/cmdline'), 'sleep\0infinity\0');
  await mkdir(join(image, 'payload'), { recursive: true });
  await cp(join(folder, 'node.sh'), join(image, 'node.sh'));
  await cp(join(repository, 'packaging/install.sh'), join(image, 'payload/install.sh'));
  const uninstall =
    '#!/bin/bash\necho "uninstall $PREFIX" >>"$CALLS"\necho >"$ROOT/etc/containerd/config.toml"\n';
  await writeFile(join(image, 'payload/uninstall.sh'), uninstall);
  await filesTar(world, join(image, 'payload/files.tar'));
  const onHost = `#!/bin/bash
export ROOT='${root}' CALLS='${calls}' DESTDIR='${root}' TMPDIR='${world}'
case $1 in
  mktemp) mkdir -p '${world}/work' && exec mktemp -d '${world}/work/XXXXXX' ;;
  systemctl) echo "$*" >>"$CALLS" ;;
  sh) exec sh -c "\${3//\\/etc/$ROOT\\/etc}" ;;
  /*) exec "$ROOT$1" "\${@:2}" ;;
  *) exec "$@" ;;
esac
`;
  await writeFile(join(world, 'on-host'), onHost, { mode: 0o755 });
  return {
    root,
    calls: () => (existsSync(calls) ? readFileSync(calls, 'utf8').trim().split('\n') : []),
    run(args, env = {}) {
      const path = process.env['PATH'] ?? '';
      const all = {
        PATH: path,
        ON_HOST: join(world, 'on-host'),
        PROC: join(world, 'proc'),
        RESTART_MARK: join(world, 'mark'),
        ...env,
      };
      const { status, stderr } = spawnSync('sh', [join(image, 'node.sh'), ...args], {
        env: all,
        encoding: 'utf8',
      });
      return { status, stderr };
    },
  };
}

/** What packaging/stage.sh gathers, as far as install.sh needs it. */
async function filesTar(world: string, archive: string): Promise<void> {
  const stage = join(world, 'stage');
  await mkdir(join(stage, 'libexec'), { recursive: true });
  await cp(join(repository, 'packaging/system'), join(stage, 'system'), { recursive: true });
  await cp(join(stage, 'system/maintain'), join(stage, 'libexec/maintain'));
  execFileSync('rm', [join(stage, 'system/maintain')]);
  await writeFile(join(stage, 'libexec/kfd-checkpoint'), program, { mode: 0o755 });
  execFileSync('tar', ['-C', stage, '-cf', archive, '.']);
}

/** Another command line of the installation. */
async function packed({ root }: Node, text: string): Promise<void> {
  const world = dirname(root);
  await writeFile(join(world, 'stage/libexec/kfd-checkpoint'), text, { mode: 0o755 });
  execFileSync('tar', [
    '-C',
    join(world, 'stage'),
    '-cf',
    join(world, 'image/payload/files.tar'),
    '.',
  ]);
}

const cleared = async ({ root }: Node) => readdir(join(dirname(root), 'work'));

test('node.sh install puts the packages on the node, configures and restarts containerd once', async (t) => {
  const one = await node(t);
  const { status, stderr } = one.run(['install'], { POD_ANNOTATIONS: 'yes', PREFIX: '/opt/kfd' });
  assert.equal(status, 0, stderr);
  assert.deepEqual(one.calls(), [
    'kfd-checkpoint configure containerd --edit --pod-annotations',
    'kfd-checkpoint check',
    'systemctl restart --no-block containerd.service',
  ]);
  assert.match(stderr, /the node lacks something/);
  assert.ok(existsSync(join(one.root, 'opt/kfd/lib/kfd-checkpoint/installed-files')));
  assert.deepEqual(await cleared(one), [], 'nothing of the payload stays');
});

test('a containerd whose configuration stays is not restarted', async (t) => {
  const one = await node(t);
  const path = join(one.root, 'etc/containerd/config.toml');
  await packed(one, '#!/bin/sh\n');
  assert.equal(one.run(['install']).status, 0);
  assert.deepEqual([one.calls(), readFileSync(path, 'utf8')], [[], 'version = 3\n']);
  // An attempt before this one has ended between the change and the restart.
  const mark = join(dirname(one.root), 'mark');
  assert.equal(existsSync(mark), false);
  await writeFile(mark, 'what it was before\n');
  execFileSync('rm', ['-r', join(one.root, 'usr')]);
  assert.equal(one.run(['install']).status, 0);
  assert.deepEqual(one.calls(), ['systemctl restart --no-block containerd.service']);
  assert.equal(existsSync(mark), false);
});

test('programs of the node are found, whatever PATH the image has', async (t) => {
  const one = await node(t);
  await packed(one, '#!/bin/sh\necho "$PATH" >>"$CALLS"\n');
  assert.equal(one.run(['install'], { PATH: '/usr/bin:/bin' }).status, 0);
  const path = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
  assert.deepEqual(one.calls(), [path, path]);
});

test('node.sh remove undoes it, but not under containers that run behind the shim', async (t) => {
  const one = await node(t);
  const shim = 'node\0/usr/local/lib/kfd-checkpoint/dist/shim/main.js\0id\0';
  await writeFile(join(dirname(one.root), 'proc/7/cmdline'), shim);
  const kept = one.run(['remove']);
  assert.deepEqual([kept.status, one.calls()], [0, []]);
  assert.match(kept.stderr, /containers run behind the shim/);
  await writeFile(join(dirname(one.root), 'proc/7/cmdline'), 'sleep\0');
  assert.equal(one.run(['remove'], { CONTAINERD_UNIT: 'other.service' }).status, 0);
  const restart = 'systemctl restart --no-block other.service';
  assert.deepEqual(one.calls(), ['uninstall /usr/local', restart]);
  assert.deepEqual(await cleared(one), []);
});

test('an installation that fails fails the init container, and leaves no payload', async (t) => {
  const one = await node(t);
  await mkdir(join(one.root, 'usr/local/lib/kfd-checkpoint'), { recursive: true });
  const { status, stderr } = one.run(['install']);
  assert.notEqual(status, 0);
  assert.match(stderr, /is of a package: remove that first/);
  assert.deepEqual([one.calls(), await cleared(one)], [[], []]);
  assert.equal(one.run([]).status, 64);
});
