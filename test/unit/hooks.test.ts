import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmod, cp, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { readHost } from '../../src/gpu/host.js';
import { annotateSpec } from '../../src/runtime/annotate.js';
import { renderHookFile } from '../../src/runtime/hook-file.js';
import { findMember, withChanged, withMember } from '../../src/runtime/json-text.js';
import { amdCdi } from './cdi-specs.js';
import { noCdi } from './device-moves.js';
import { fixtures, repository, temporaryFolder } from './paths.js';

const gpuSpec = `{
  "ociVersion": "1.2.0",
  "process": {"rlimits":[{"type":"RLIMIT_CORE","hard":18446744073709551615,"soft":18446744073709551615}]},
  "linux": {"devices": [
    {"path":"/dev/kfd","type":"c","major":234,"minor":0},
    {"path":"/dev/dri/renderD129","type":"c","major":226,"minor":129}]}
}
`;

/** A package with nothing but what starts programs, and `program` in the place of the compiled hook. */
async function install(t: TestContext, program: string | undefined): Promise<string> {
  const prefix = await temporaryFolder(t);
  await mkdir(join(prefix, 'dist/hooks'), { recursive: true });
  await cp(join(repository, 'libexec'), join(prefix, 'libexec'), { recursive: true });
  await writeFile(join(prefix, 'package.json'), '{"type":"module"}');
  if (program !== undefined) await writeFile(join(prefix, 'dist/hooks/precreate.js'), program);
  return prefix;
}

const parts = {
  template: await readFile(join(repository, 'hooks/50-kfd-checkpoint.json'), 'utf8'),
  script: await readFile(join(repository, 'hooks/precreate'), 'utf8'),
};

interface HookFile {
  readonly hook: {
    readonly path: string;
    readonly args: readonly string[];
    readonly env: readonly string[];
  };
}

/** Runs the hook as podman does: what the hook file names, with the environment it gives. */
function run(prefix: string, spec: string | Buffer, path = process.env['PATH'] ?? '') {
  const { hook } = JSON.parse(renderHookFile(parts, prefix)) as HookFile;
  const env = Object.fromEntries(hook.env.map((one) => one.split('=') as [string, string]));
  return spawnSync(hook.path, hook.args.slice(1), {
    argv0: hook.args[0],
    input: spec,
    env: { ...env, PATH: path },
    maxBuffer: 64 << 20,
  });
}

function assertUnchanged(prefix: string, spec: string | Buffer, path?: string): void {
  const { status, stdout } = run(prefix, spec, path);
  assert.equal(status, 0);
  assert.ok(stdout.equals(Buffer.from(spec)), `printed ${stdout.subarray(0, 200).toString()}`);
}

test('the compiled hook annotates a GPU container and keeps every other byte', () => {
  const { status, stdout } = run(repository, gpuSpec);
  assert.equal(status, 0);
  const text = stdout.toString();
  const { annotations } = JSON.parse(text) as { annotations: Record<string, string> };
  assert.equal(annotations['io.kfd-checkpoint.kfd-device'], '234:0');
  const member = findMember(text, 'annotations');
  assert.ok(member);
  const before = text.slice(0, member.start).replace('"annotations": ', '');
  assert.equal(before + text.slice(member.end + 1), gpuSpec.trimEnd());
});

test('a container without /dev/kfd never reaches node', async (t) => {
  const marker = join(await temporaryFolder(t), 'ran');
  const prefix = await install(
    t,
    `import{writeFileSync}from'fs';writeFileSync(${JSON.stringify(marker)},'')`,
  );
  for (const spec of [
    '{}',
    '{"a":1}\n',
    '{"a":1}\n\n\n',
    '',
    '\n',
    'no json',
    '{"path":"/dev/kfdx"}',
    '%s%n\\n',
    '{"x":"ä\\u0000"}',
    Buffer.from([0x7b, 0xff, 0xfe, 0x80, 0x7d]),
  ]) {
    assertUnchanged(prefix, spec);
  }
  assert.equal(spawnSync('test', ['-e', marker]).status, 1);
});

test('a broken installation prints the spec as it came', async (t) => {
  const end = '\\n#kfd-checkpoint: end of spec\\n';
  const programs: Record<string, string | undefined> = {
    'missing program': undefined,
    'syntax error': 'const = ;',
    'missing import': "import './nowhere.js';",
    throws: "throw new Error('x');",
    'prints nothing': '',
    'prints garbage': "console.log('garbage');",
    'prints garbage with the right end': `process.stdout.write('garbage${end}');`,
    'prints half a spec': 'process.stdout.write(\'{"ociVersion":\');',
    'prints and then fails': `process.stdout.write('{"a":1}'); process.exit(3);`,
    'continues after the end': `process.stdout.write('{"a":1}${end}more');`,
    'kills itself': "process.kill(process.pid, 'SIGKILL');",
  };
  for (const [name, program] of Object.entries(programs)) {
    await t.test(name, async (t) => {
      const prefix = await install(t, program);
      for (const spec of [gpuSpec, `${gpuSpec}\n\n`, gpuSpec.trimEnd()])
        assertUnchanged(prefix, spec);
    });
  }
});

test('a hook file without its package prints the spec as it came', async (t) => {
  const prefix = await install(t, undefined);
  await rm(prefix, { recursive: true });
  assertUnchanged(prefix, gpuSpec);
  assertUnchanged(prefix, '{"a":1}\n');
});

test('without node, or with one that is not executable, nothing changes', async (t) => {
  const bin = join(await temporaryFolder(t), 'bin');
  await mkdir(bin);
  for (const tool of ['cat', 'timeout']) await symlink(`/usr/bin/${tool}`, join(bin, tool));
  assertUnchanged(repository, gpuSpec, bin);
  await writeFile(join(bin, 'node'), 'not a program');
  await chmod(join(bin, 'node'), 0o755);
  assertUnchanged(repository, gpuSpec, bin);
  await rm(join(bin, 'timeout'));
  assertUnchanged(repository, gpuSpec, bin);
});

test('an empty PATH in the hook file does not lose the spec', () => {
  assertUnchanged(repository, '{"a":1}\n', '');
});

test('a program that hangs is given up', async (t) => {
  const prefix = await install(t, 'setInterval(() => {}, 1000);');
  const bin = join(await temporaryFolder(t), 'bin');
  await mkdir(bin);
  // The wait is shortened by a timeout(1) that takes our arguments and waits less.
  await writeFile(
    join(bin, 'timeout'),
    '#!/bin/sh\nshift 3\nexec /usr/bin/timeout -k 1 0.3 "$@"\n',
  );
  await chmod(join(bin, 'timeout'), 0o755);
  assertUnchanged(prefix, gpuSpec, `${bin}:${process.env['PATH']}`);
});

test('specs of a megabyte pass, with and without a GPU', async (t) => {
  const filler = JSON.stringify({ env: 'x'.repeat(1 << 20) });
  assertUnchanged(repository, `${filler}\n`);
  const prefix = await install(t, undefined);
  const big = gpuSpec.replace('"1.2.0"', `"${'1'.repeat(1 << 20)}"`);
  assertUnchanged(prefix, big);
  const { status, stdout } = run(repository, big);
  assert.equal(status, 0);
  assert.equal(
    (JSON.parse(stdout.toString()) as { ociVersion: string }).ociVersion.length,
    1 << 20,
  );
});

test('a container without a GPU costs the start of one program besides the shell', async (t) => {
  const bin = join(await temporaryFolder(t), 'bin');
  const started = join(bin, 'started');
  await mkdir(bin);
  for (const tool of ['cat', 'timeout', 'node']) {
    await writeFile(join(bin, tool), `#!/bin/sh\necho ${tool} >>${started}\nexec /bin/cat\n`);
    await chmod(join(bin, tool), 0o755);
  }
  // What that takes in time is measured by `npm run bench -- plain`.
  const mounts = Array.from({ length: 200 }, (_, i) => ({ source: `/s${i}` }));
  assertUnchanged(repository, JSON.stringify({ mounts }), bin);
  assert.equal(await readFile(started, 'utf8'), 'cat\n');
  run(repository, gpuSpec, bin);
  assert.equal(await readFile(started, 'utf8'), 'cat\ncat\ntimeout\n');
});

test('annotations name the GPUs the container gets', async () => {
  const host = await readHost({ root: join(fixtures, 'sysfs/two-gpus') });
  const text = annotateSpec(gpuSpec, host, noCdi, '1.2.3');
  const { annotations } = JSON.parse(text) as { annotations: Record<string, string> };
  assert.deepEqual(annotations, {
    'io.kfd-checkpoint.version': '1.2.3',
    'io.kfd-checkpoint.kernel': '6.12.107+deb13-amd64',
    'io.kfd-checkpoint.kfd-device': '234:0',
    'io.kfd-checkpoint.gpus':
      '[{"gpu_id":47806,"gfx":"gfx90a","render_minor":129,"device":"226:129"}]',
  });
  assert.ok(text.includes('18446744073709551615'));
  assert.equal(annotateSpec(text, host, noCdi, '1.2.3'), text);
});

test('annotations tell the CDI name of a GPU, where it has one', async () => {
  const host = await readHost({ root: join(fixtures, 'sysfs/two-gpus') });
  const cdi = amdCdi([128, 129].map((render) => ({ card: render - 128, render })));
  const { annotations } = JSON.parse(annotateSpec(gpuSpec, host, cdi, '1')) as {
    annotations: Record<string, string>;
  };
  const gpus = JSON.parse(annotations['io.kfd-checkpoint.gpus'] ?? '') as { cdi?: string }[];
  assert.deepEqual(
    gpus.map((gpu) => gpu.cdi),
    ['amd.com/gpu=1'],
  );
});

test('annotations of others stay, old ones of ours go', async () => {
  const host = await readHost({ root: join(fixtures, 'sysfs/no-kfd') });
  const spec = withMember(gpuSpec, 'annotations', { a: 'b', 'io.kfd-checkpoint.old': 'x' });
  const { annotations } = JSON.parse(annotateSpec(spec, host, noCdi, '1')) as {
    annotations: Record<string, string>;
  };
  assert.equal(annotations['a'], 'b');
  assert.equal(annotations['io.kfd-checkpoint.old'], undefined);
  assert.equal(annotations['io.kfd-checkpoint.gpus'], '[]');
});

test('a spec of another shape is not touched', async () => {
  const host = await readHost({ root: join(fixtures, 'sysfs/two-gpus') });
  const noKfd = '{"linux":{"devices":[]},"x":"\\"/dev/kfd\\""}';
  assert.equal(annotateSpec(noKfd, host, noCdi, '1'), noKfd);
  for (const bad of [
    '[]',
    '{}',
    '{"linux":{"devices":{}}}',
    'x',
    '{"linux":{"devices":[{"path":"/dev/kfd"}]},"annotations":7}',
  ]) {
    assert.throws(() => annotateSpec(bad, host, noCdi, '1'), Error, bad);
  }
});

test('one member of a JSON text is replaced, in any layout', () => {
  const cases: [string, string][] = [
    ['{}', '{"k": 1}'],
    [' { } ', ' {"k": 1 } '],
    ['{"a":2}', '{"k": 1,"a":2}'],
    ['{\n  "a":\t2\r\n}\n', '{"k": 1,\n  "a":\t2\r\n}\n'],
    ['{"__proto__":{"k":2}}', '{"k": 1,"__proto__":{"k":2}}'],
    ['{"a":[1,{"k":5}],"k" : null }', '{"a":[1,{"k":5}],"k" : 1 }'],
    ['{"k":"},{\\"k\\":2","z":"\\\\"}', '{"k":1,"z":"\\\\"}'],
    ['{"k":{"k":[[]]},"b":12345678901234567890}', '{"k":1,"b":12345678901234567890}'],
    ['{\n "k": 7\n}', '{\n "k": 1\n}'],
    ['{"\\u006b":2}', '{"\\u006b":1}'],
  ];
  for (const [before, after] of cases) assert.equal(withMember(before, 'k', 1), after);
  assert.throws(() => withMember('{"k":1,"k":2}', 'k', 1), /twice/);
  assert.throws(() => withMember('[1]', 'k', 1), /not a JSON object/);
  for (const bad of ['', '{"a":1,}', '{"a":1} // x', '{"a":01}', '{"a":1', '{"a":1}}']) {
    assert.throws(() => withMember(bad, 'k', 1), SyntaxError, bad);
  }
});

test('one member deep in a JSON text is changed, and no other byte', () => {
  const twice = (value: unknown) => [value, value];
  const cases: [string, string][] = [
    ['{"a":{"b":[{"__proto__":1}]}}', '{"a":{"b":[[{"__proto__":1}],[{"__proto__":1}]]}}'],
    [
      '{"x":18446744073709551615, "a" : {"b":null} }\n',
      '{"x":18446744073709551615, "a" : {"b":[null,null]} }\n',
    ],
    ['{"b":1}', '{"b":1}'],
    ['{"a":[1]}', '{"a":[1]}'],
    ['{"a":{"c":1,"c":2}}', '{"a":{"c":1,"c":2}}'],
    ['[ ]', '[ ]'],
  ];
  for (const [before, after] of cases) assert.equal(withChanged(before, ['a', 'b'], twice), after);
  for (const bad of ['{"a":{"b":1},"a":{}}', '{"a":{"b":1,"b":2}}', 'x']) {
    assert.throws(() => withChanged(bad, ['a', 'b'], twice), SyntaxError, bad);
  }
});
