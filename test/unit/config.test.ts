import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { defaultConfig, loadConfig, parseConfig, readConfig } from '../../src/config.js';
import { asKfdError, describeError, exitCodes, KfdError } from '../../src/errors.js';
import { createLogger } from '../../src/log.js';
import { readTextIfAny } from '../../src/os/files.js';
import { temporaryFolder } from './paths.js';

test('a missing file means the defaults', async (t) => {
  const folder = await temporaryFolder(t);
  assert.deepEqual(await loadConfig(join(folder, 'none.json')), defaultConfig());
  assert.deepEqual(defaultConfig(), {
    parallel: true,
    compress: 'auto',
    zstd_level: 1,
    staging_mib: 64,
    staging_total_mib: 1024,
    short_freeze: true,
    freeze_host_mib: 4096,
    session_memory_mib: 0,
    session_tasks: 4096,
    engine: 'auto',
    gate_timeout_s: 200,
    log_dir: '/var/log/kfd-checkpoint',
    keep_logs: 1000,
    metrics_file: '',
    gpu_map: {},
    ignore_mismatch: [],
  });
});

test('a file overrides what it names', async (t) => {
  const path = join(await temporaryFolder(t), 'config.json');
  await writeFile(path, '{"compress":"zstd","staging_mib":256,"staging_total_mib":8}');
  assert.deepEqual(await loadConfig(path), {
    ...defaultConfig(),
    compress: 'zstd',
    staging_mib: 256,
    staging_total_mib: 8,
  });
  await writeFile(path, '{"gpu_map":{"renderD128":"0000:03:00.0","51966":"renderD129"}}');
  assert.deepEqual((await loadConfig(path)).gpu_map, {
    renderD128: '0000:03:00.0',
    '51966': 'renderD129',
  });
});

test('unknown options have no effect and are named', async (t) => {
  const path = join(await temporaryFolder(t), 'config.json');
  await writeFile(path, '{"paralel":false,"zstd_level":3,"__proto__":{"engine":"cpu"}}');
  const { config, unknownOptions } = await readConfig(path);
  assert.deepEqual(config, { ...defaultConfig(), zstd_level: 3 });
  assert.deepEqual(unknownOptions, ['paralel', '__proto__']);
  assert.deepEqual(await loadConfig(path), config);
  assert.deepEqual((await readConfig(`${path}.none`)).unknownOptions, []);
});

test('wrong options are all named', () => {
  const refused = (text: string, ...parts: RegExp[]) => {
    for (const message of parts) {
      assert.throws(() => parseConfig(text, 'c.json'), { code: 'E_CONFIG', message });
    }
  };
  refused(
    '{"parallel":1,"staging_mib":257}',
    /c\.json: .*"parallel" must be boolean/,
    /"staging_mib" must be a whole number from 8 to 256/,
  );
  refused(
    '{"staging_total_mib":7}',
    /"staging_total_mib" must be a whole number from 8 to 1048576/,
  );
  refused('{"compress":"gzip"}', /"compress" must be .*lz4/);
  refused('{"short_freeze":1}', /"short_freeze" must be boolean/);
  refused('{"freeze_host_mib":-1}', /"freeze_host_mib" must be a whole number from 0 to 1048576/);
  refused('{"engine":"gpu"}', /"engine" must be .*sdma/);
  refused('{"zstd_level":1.5}', /"zstd_level"/);
  refused('{"log_dir":"relative"}', /"log_dir" must be an absolute path/);
  refused('{"gpu_map":{"renderD128":"/dev/dri/renderD129"}}', /"gpu_map.*must name GPUs by/);
  refused('{"gpu_map":{"first":"renderD129"}}', /must name GPUs by/);
  refused('[]', /c\.json: /);
  refused('{', /not JSON/);
});

test('errors keep code, hint and cause; foreign ones are classed', () => {
  const cause = new KfdError('E_GPU_IO', 'gpu 0: timed out', { hint: 'h', details: { gpu: 0 } });
  const error = new KfdError('E_TIMEOUT', 'gate: 200 s passed', { cause });
  assert.deepEqual(describeError(error), {
    message: 'gate: 200 s passed',
    code: 'E_TIMEOUT',
    cause: { message: 'gpu 0: timed out', code: 'E_GPU_IO', hint: 'h', details: { gpu: 0 } },
  });
  assert.equal(asKfdError(error, 'x'), error);
  assert.equal(asKfdError(Object.assign(new Error('no'), { code: 'ENOSPC' }), 'x').code, 'E_IO');
  assert.equal(
    asKfdError(Object.assign(new Error('no'), { code: 'ERR_X' }), 'x').code,
    'E_INTERNAL',
  );
  assert.equal(asKfdError('text', 'x').message, 'x: text');
  assert.equal(exitCodes.E_USAGE, 2);
});

test('a log file has one JSON object per line, with the error inside', async (t) => {
  const path = join(await temporaryFolder(t), 'deep/er/session.log');
  const log = createLogger({ file: path, base: { session: 's1' } });
  log.debug('not written');
  log.child({ gpu: 0 }).error({ err: new KfdError('E_GPU_IO', 'gpu 0: gone') }, 'drain failed');
  const lines = ((await readTextIfAny(path)) ?? '').trimEnd().split('\n');
  assert.equal(lines.length, 1);
  const { time, ...rest } = JSON.parse(lines[0] ?? '') as Record<string, unknown>;
  assert.match(String(time), /^\d{4}-\d\d-\d\dT/);
  assert.deepEqual(rest, {
    level: 'error',
    session: 's1',
    gpu: 0,
    err: { message: 'gpu 0: gone', code: 'E_GPU_IO' },
    msg: 'drain failed',
  });
  assert.throws(() => createLogger({ file: `${path}/below/x.log` }), { code: 'E_IO' });
});

test('a log that has no room drops lines and never throws', () => {
  const log = createLogger({ file: '/dev/full' });
  for (let i = 0; i < 3; i++) log.error({ i }, 'no room');
});
