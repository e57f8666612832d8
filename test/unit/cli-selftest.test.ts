/** `kfd-checkpoint selftest`: its command line, what it asks, and the stage that looks at the host. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdir, readdir, readFile, rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import type { ReadStream } from 'node:tty';
import type { CommandContext } from '../../src/cli/context.js';
import { questionsOn } from '../../src/cli/question.js';
import type { Report } from '../../src/selftest/report.js';
import { ableHost, programs } from './able-host.js';
import { cli, errorIn, fakeRun } from './cli-context.js';
import { temporaryFolder } from './paths.js';

async function selftest(args: readonly string[], over: Partial<CommandContext> = {}) {
  const words = ['selftest', '--format', 'json', '--size', '1', ...args];
  const result = await cli(words, { run: fakeRun(programs), ...over });
  const report = result.stdout === '' ? undefined : (JSON.parse(result.stdout) as Report);
  return { ...result, report, host: report?.stages[0] };
}

const hostAlone = (root: string, ...more: string[]) =>
  selftest(['--stages', 'host', '--root', root, ...more]);

test('an able host passes, and the table says what was found', async (t) => {
  const root = await ableHost(t);
  const { code, host, report } = await hostAlone(root);
  assert.deepEqual([code, host?.status, report?.passed], [0, 'passed', true]);
  const note = (name: string) => host?.steps.find((step) => step.name === name)?.note;
  assert.match(note('check: criu') ?? '', /^ok: 4\.1\.1$/);
  assert.match(note('gpu 1') ?? '', /large BAR, no SVM/);
  assert.equal(report?.programs['podman'], '5.4.2');
  const table = await cli(['selftest', '--stages', 'host', '--root', root], {
    run: fakeRun(programs),
  });
  assert.match(table.stdout, /^GPU {2}MODEL/);
  assert.match(table.stdout, /^passed {2}host /m);
  assert.match(table.stdout, /\nPassed\n$/);
  assert.match(table.stderr, /^host: passed, /);
});

test('a finding of check fails the host stage with its hint', async (t) => {
  const root = await ableHost(t);
  await rm(join(root, 'etc/criu/default.conf'));
  const { code, host, stderr } = await hostAlone(root);
  assert.deepEqual([code, host?.status, host?.code], [3, 'failed', 'E_HOST']);
  assert.match(host?.reason ?? '', /^default\.conf: /);
  const { message, hint } = errorIn(stderr);
  assert.match(message, /^stage host: default\.conf: /);
  assert.equal(hint, 'run "kfd-checkpoint configure"');
});

test('others on the GPU are refused unless allowed', async (t) => {
  const root = await ableHost(t);
  await mkdir(join(root, 'sys/class/kfd/kfd/proc/4711'), { recursive: true });
  await mkdir(join(root, 'proc/4712/fd'), { recursive: true });
  await symlink('/dev/dri/renderD128', join(root, 'proc/4712/fd/7'));
  await mkdir(join(root, 'proc/4713/fd'), { recursive: true });
  await symlink('/dev/dri/card0', join(root, 'proc/4713/fd/7'));
  const { host } = await hostAlone(root);
  assert.equal(host?.status, 'failed');
  const users = 'unknown (pid 4711, KFD), unknown (pid 4712, render node)';
  assert.equal(host?.reason, `others use the GPU: ${users}`);
  assert.match(host?.hint ?? '', /--allow-others/);
  const other = await hostAlone(root, '--gpu', 'renderD129');
  assert.equal(other.host?.reason, 'others use the GPU: unknown (pid 4711, KFD)');
  const allowed = await hostAlone(root, '--allow-others');
  assert.equal(allowed.host?.status, 'passed');
  assert.equal(allowed.host?.steps.find(({ name }) => name === 'others')?.note, users);
});

test('a session that runs, a GPU that is not there and a full disk are refused', async (t) => {
  const root = await ableHost(t);
  const large = await hostAlone(root, '--size', String(1 << 20));
  assert.match(large.host?.reason ?? '', /MiB free, \d+ MiB needed$/);
  await mkdir(join(root, 'run/kfd-checkpoint/99'), { recursive: true });
  const busy = await hostAlone(root);
  assert.equal(busy.host?.reason, 'checkpoints or restores run: pid 99');
  const { code, stderr } = await hostAlone(root, '--gpu', 'renderD128,renderD7');
  assert.equal(code, 4);
  assert.match(errorIn(stderr).hint, /renderD128, renderD129$/);
});

test('wrong sizes and stages are usage errors', async () => {
  for (const words of [
    ['--size', '0'],
    ['--size', '1.5'],
    ['--size', '99999999'],
    ['--stages', 'gpu'],
  ]) {
    const { code, stdout } = await cli(['selftest', ...words]);
    assert.deepEqual([code, stdout], [2, ''], words.join(' '));
  }
});

test('the report file holds what JSON on standard output shows', async (t) => {
  const path = join(await temporaryFolder(t), 'report.json');
  const { stdout } = await hostAlone(await ableHost(t), '--report', path);
  assert.equal(await readFile(path, 'utf8'), stdout);
});

test('no folder of the self-test stays', async (t) => {
  const folder = await temporaryFolder(t);
  const before = process.env['TMPDIR'];
  process.env['TMPDIR'] = folder;
  t.after(() => {
    if (before === undefined) delete process.env['TMPDIR'];
    else process.env['TMPDIR'] = before;
  });
  const { code } = await hostAlone('/nonexistent');
  assert.notEqual(code, 0);
  assert.deepEqual(await readdir(folder), []);
});

/** A terminal on which `line` is typed after the question. */
async function answered(line: string | undefined, signal = new AbortController().signal) {
  const input = new PassThrough();
  let opened = 0;
  let shown = '';
  const ask = questionsOn(
    true,
    () => {
      opened += 1;
      return input as unknown as ReadStream;
    },
    (text) => {
      shown += text;
    },
    signal,
  );
  assert.equal(opened, 0, 'the input was opened before anybody asked');
  const answer = ask?.('Continue?');
  if (line === undefined) input.end();
  else input.write(line);
  return { yes: await answer, shown, input };
}

test('only yes is yes', async () => {
  for (const line of ['y\n', 'Yes\n', ' YES \n'])
    assert.equal((await answered(line)).yes, true, line);
  for (const line of ['\n', 'n\n', 'yesterday\n', 'no yes\n', undefined]) {
    assert.equal((await answered(line)).yes, false, line);
  }
  const { shown, input } = await answered('y\n');
  assert.equal(shown, 'Continue? [y/N] ');
  assert.ok(input.isPaused(), 'a terminal that is read keeps the program alive');
  const controller = new AbortController();
  const asked = answered('', controller.signal);
  controller.abort();
  assert.equal((await asked).yes, false);
  assert.equal(
    questionsOn(
      false,
      () => assert.fail('opened'),
      () => undefined,
      controller.signal,
    ),
    undefined,
  );
  await once(input.end(), 'finish');
});
