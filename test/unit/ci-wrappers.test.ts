/** The wrappers of examples/ci: their scripts are run, with stand-ins for podman and kfd-checkpoint. */

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { chmod, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { CiWorld, script } from './ci-programs.js';
import { repository } from './paths.js';

const folder = join(repository, 'examples/ci');
const wrappers = ['github-action/action.yml', 'gitlab.yml', 'tekton-task.yaml'];
const withYaml = spawnSync('python3', ['-c', 'import yaml']).status === 0;
const skip = withYaml ? false : 'python3 has no yaml';

/** A YAML document, as python3 reads it. */
function parsed<T>(name: string): T {
  const code = 'import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)';
  const input = readFileSync(join(folder, name));
  return JSON.parse(execFileSync('python3', ['-c', code], { input, encoding: 'utf8' })) as T;
}

/** Runs a wrapper's script as its system does, with `sh -e`. */
function shell(world: CiWorld, text: string, env: Record<string, string>, words: string[] = []) {
  const path = `${join(world.folder, 'bin')}:${process.env['PATH']}`;
  const { status, stderr } = spawnSync('sh', ['-e', '-c', text, 'sh', ...words], {
    encoding: 'utf8',
    cwd: world.folder,
    env: { ...process.env, PATH: path, TMPDIR: join(world.folder, 'tmp'), ...env },
  });
  return { status, stderr };
}

test('every option that a wrapper uses is one of the script', () => {
  const known = [...readFileSync(script, 'utf8').matchAll(/^\t+(--[a-z- |]+)\)/gm)].flatMap(
    ([, words = '']) => words.split(/[ |]+/),
  );
  assert.ok(known.includes('--junit') && known.includes('--with-image'), known.join());
  for (const name of wrappers) {
    const text = readFileSync(join(folder, name), 'utf8');
    const lines = text
      .split('\n')
      .filter((line) => /"\$IMAGE"|kfd-ci\.xml|save|migrate/.test(line));
    const calls = lines.filter((line) => !/^ *#/.test(line)).join('\n');
    const used = [...calls.matchAll(/(?<= )--[a-z-]+/g)].map(([option]) => option);
    assert.ok(used.length > 1, name);
    assert.deepEqual(
      used.filter((option) => !known.includes(option)),
      [],
      name,
    );
  }
});

const refused = {
  code: 5,
  stdout: '',
  stderr: '{"schema_version":1,"error":{"code":"E_GPU_MISMATCH","message":"m","hint":"h"}}\n',
};

test('GitHub: warm, cold by itself, and left to the job', { skip }, async (t) => {
  interface Action {
    readonly runs: { readonly steps: readonly { readonly run: string }[] };
    readonly inputs: Readonly<Record<string, object>>;
  }
  const { runs, inputs } = parsed<Action>('github-action/action.yml');
  const text = readFileSync(join(folder, 'github-action/action.yml'), 'utf8');
  const asked = [...text.matchAll(/\{\{ inputs\.(\w+) \}\}/g)].map(([, input]) => input);
  assert.deepEqual(asked.sort(), Object.keys(inputs).sort());
  const env = {
    IMAGE: 'oci:/srv/warm',
    NAME: 'job',
    READY: 'true',
    WAIT: '60',
    RUN: '',
    JUNIT: 'kfd-ci.xml',
    GITHUB_ACTION_PATH: join(folder, 'github-action'),
  };
  const run = async (world: CiWorld, more: Record<string, string>) => {
    const GITHUB_OUTPUT = join(world.folder, 'output');
    const { status } = shell(world, runs.steps[0]?.run ?? '', { ...env, GITHUB_OUTPUT, ...more });
    assert.equal(status, 0);
    assert.match(world.read('kfd-ci.xml'), /<testsuite name="kfd-ci start"/);
    return world.read('output').trimEnd().split('\n');
  };
  const warm = await run((await CiWorld.make(t)).put('ready'), {});
  assert.deepEqual(warm, ['start=warm', 'status=0', 'reason=restored']);
  const left = await run((await CiWorld.make(t)).answer('check', refused), {});
  assert.deepEqual(left, ['start=none', 'status=10', 'reason=other-gpu']);
  const world = (await CiWorld.make(t)).answer('check', refused).put('ready');
  const cold = await run(world, { RUN: "--env 'A=two words' worker" });
  assert.deepEqual(cold, ['start=cold', 'status=0', 'reason=other-gpu']);
  const command = 'podman run --detach --name job --env A=two words worker';
  assert.equal(world.commands().at(-1), command);
});

test('GitLab: each job does what its name says', { skip }, async (t) => {
  interface Job {
    readonly script: readonly string[];
  }
  const jobs = parsed<Record<string, Job>>('gitlab.yml');
  const env = {
    KFD_CI: script,
    WARM_IMAGE: 'registry.example/worker:warm',
    WORKER: '--device /dev/kfd worker serve',
    READY: 'true',
    CI_JOB_ID: '7',
    MIGRATED_CONTAINER: 'job',
    MIGRATION_TARGET: 'root@b',
  };
  const downtime = '{\n  "downtime_ms": 60000\n}\n';
  const lastOf = async (job: string) => {
    const world = (await CiWorld.make(t)).put('ready').put('migrate.out', downtime);
    for (const line of jobs[job]?.script ?? []) {
      const { status, stderr } = shell(world, line, env);
      assert.equal(status, 0, stderr);
    }
    return world.commands();
  };
  const saved = await lastOf('warm-image');
  assert.ok(saved.includes('podman push --quiet registry.example/worker:warm'), saved.join('\n'));
  assert.ok(saved.includes('podman run --detach --name warm-7 --device /dev/kfd worker serve'));
  assert.match((await lastOf('test-on-gpu')).join('\n'), /restore .* --name job-7$/);
  assert.deepEqual(await lastOf('nightly-migration'), [
    'kfd-checkpoint migrate --quiet --format json --with-image job root@b',
  ]);
});

test('Tekton: words pass through ssh as they are', { skip }, async (t) => {
  interface Task {
    readonly spec: {
      readonly steps: readonly {
        readonly script: string;
        readonly env: readonly { readonly name: string; readonly value: string }[];
      }[];
      readonly params: readonly { readonly name: string }[];
    };
  }
  const { spec } = parsed<Task>('tekton-task.yaml');
  const [step] = spec.steps;
  const params = new Set(spec.params.map(({ name }) => name));
  for (const [, name = ''] of JSON.stringify(spec.steps).matchAll(/\$\(params\.([\w-]+)/g)) {
    assert.ok(params.has(name), name);
  }
  const world = (await CiWorld.make(t)).answer('check', refused).put('ready');
  const ssh = join(world.folder, 'bin/ssh');
  await writeFile(ssh, '#!/bin/sh\necho "ssh $1" >>log\nexec sh -c "$2"\n');
  await chmod(ssh, 0o755);
  await symlink(script, join(world.folder, 'bin/kfd-ci'));
  const text = (step?.script ?? '').replaceAll('/tmp/', `${world.folder}/tmp/`);
  const env = {
    HOST: 'root@gpu',
    IMAGE: 'oci:/srv/warm',
    NAME: 'job',
    READY: 'true',
    START_RESULT: join(world.folder, 'start'),
    REASON_RESULT: join(world.folder, 'reason'),
  };
  assert.deepEqual(
    Object.keys(env),
    step?.env.map(({ name }) => name),
  );
  const { status, stderr } = shell(world, text, env, ['worker', "it's", 'two words', '$HOME']);
  assert.equal(status, 0, stderr);
  const run = "podman run --detach --name job worker it's two words $HOME";
  assert.equal(world.commands().at(-1), run);
  assert.deepEqual([world.read('start'), world.read('reason')], ['cold', 'other-gpu']);
});
