/**
 * What a new user does with the packages: installs them as README says, sets podman up, runs, checkpoints and restores,
 * updates while a container runs and while a checkpoint runs, removes and purges. A container without a GPU is
 * checkpointed and restored after every step. At the end the system has no file more than before.
 */

import assert from 'node:assert/strict';
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { archivePath } from '../e2e/support/archive.js';
import { attempt, attemptWithin, run, until } from '../e2e/support/command.js';
import { Container, type Engine } from '../e2e/support/container.js';
import { assertExplained } from '../e2e/support/explained.js';
import { setLinkRate } from '../e2e/support/gpu.js';
import type { Lane } from '../e2e/support/lanes.js';
import { plainLife } from '../e2e/support/plain.js';
import { configure, loadedPlugin, prefix } from '../e2e/support/product.js';
import { sessionThat, startedSession } from '../e2e/support/session.js';
import { assertNothingLeft, scenario } from '../e2e/support/suite.js';
import { newerDeb, newerVersions } from './built.js';
import { differences, type Listing, listFiles } from './system-files.js';

const [whileRunning = '', whileSaving = ''] = newerVersions;
const refreshUnit = 'kfd-checkpoint-refresh.service';
const spareUnit = 'kfd-checkpoint-spare.service';
const logFolder = '/var/log/kfd-checkpoint';
const spareSocket = '/run/kfd-checkpoint/spare.sock';
const administrators = 'ghost-limit 2M\n';
const criuConf = '/etc/criu/default.conf';

let before: Listing = new Map();

/** apt-get unpacks a large program under emulation. */
async function apt(...words: string[]): Promise<string> {
  const script = `cd /repo/build/packages && apt-get --yes ${words.join(' ')}`;
  const { status, stdout, stderr } = await attemptWithin(900, 'sh', '-c', script);
  assert.equal(status, 0, `${script}\n${stdout}\n${stderr}`);
  return stdout;
}

async function installFirst(): Promise<void> {
  mkdirSync('/etc/criu', { recursive: true });
  writeFileSync(criuConf, administrators);
  before = await listFiles();
  const text = await apt('install', './kfd-checkpoint_*.deb', './kfd-checkpoint-node_*.deb');
  assert.match(text, /now run "kfd-checkpoint configure"/);
  assert.ok(!existsSync(loadedPlugin), 'the package set podman up');
  assert.equal(await run('systemctl', 'is-enabled', refreshUnit), 'enabled');
}

async function setUp(): Promise<void> {
  await run('kfd-checkpoint', 'configure');
  const { status, stdout } = await attempt('kfd-checkpoint', 'check');
  assert.equal(status, 0, stdout);
  configure({});
  // Stages with containers have scenarios of their own (test/e2e/selftest.ts).
  const stages = 'copy,queues,pause,canary';
  const told = await run('kfd-checkpoint', 'selftest', '--yes', '--size', '8', '--stages', stages);
  const passed = [...told.matchAll(/^passed +(\w+)/gm)].map(([, name]) => name);
  assert.deepEqual(passed, ['host', ...stages.split(',')], told);
}

/** CRIU has the plugin of this release. */
async function assertRelease(version: string): Promise<void> {
  assert.equal(await run('kfd-checkpoint', '--version'), `kfd-checkpoint ${version}`);
  const installed = readFileSync(join(prefix, 'criu/kfd_checkpoint.so'));
  assert.ok(installed.includes(`${version}\n`), 'not the plugin of that release');
  assert.ok(installed.equals(readFileSync(loadedPlugin)), 'the copy was not renewed');
}

async function updateTo(version: string): Promise<void> {
  await apt('install', newerDeb(version));
  await assertRelease(version);
}

/** This guest has none of the units that come before others. */
async function withoutOthers(unit: string): Promise<void> {
  const settings = `/run/systemd/system/${unit}.d`;
  mkdirSync(settings, { recursive: true });
  writeFileSync(join(settings, 'lab.conf'), '[Unit]\nDefaultDependencies=no\n');
  await run('systemctl', 'daemon-reload');
}

async function enableSpare(): Promise<void> {
  assert.equal((await attempt('systemctl', 'is-enabled', spareUnit)).stdout, 'disabled');
  await withoutOthers(spareUnit);
  rmSync(logFolder, { recursive: true }); // as before the first session
  await run('systemctl', 'enable', '--now', spareUnit);
  await until('a spare session', () => existsSync(spareSocket));
  assert.equal(statSync(logFolder).mode & 0o777, 0o700);
}

/** Both engines save at once: one of them has the spare session, and another one waits later. */
async function assertSpareWorked(): Promise<void> {
  const { stdout } = await attempt('grep', '-rlF', '"was spare"', logFolder);
  assert.match(stdout, /-dump-\d+\.log/);
  await until('the next spare session', () => existsSync(spareSocket));
}

/** As at the boot of a host whose /usr came as an image. */
async function refreshByUnit(): Promise<void> {
  await withoutOthers(refreshUnit);
  appendFileSync(loadedPlugin, 'damage');
  const { status } = await attempt('systemctl', 'start', refreshUnit);
  assert.equal(status, 0, (await attempt('systemctl', 'status', refreshUnit)).stdout);
  await assertRelease(whileSaving);
}

async function save(job: Container, archive: string): Promise<void> {
  const saved = await job.checkpoint('--compress', 'none', '--export', archive);
  assert.equal(saved.status, 0, saved.stderr);
  await job.remove();
}

async function bringBack(job: Container, archive: string): Promise<void> {
  const restored = await job.restore('--import', archive);
  assert.equal(restored.status, 0, restored.stderr);
  await assertComputesOn(job);
}

async function assertComputesOn(job: Container): Promise<void> {
  await job.computesOn();
  assert.match(await job.control.ask('verify'), /^verified .*barrier=completed/);
}

/** Waits for a place in a checkpoint, another one with each engine, and stops CRIU there. */
async function stopCriu(job: Container, engine: Engine): Promise<number> {
  const { criu } =
    engine === 'crun'
      ? await until('a session', () => startedSession(job, 'dump'))
      : await sessionThat(job, 'dump', 'draining');
  process.kill(criu, 'SIGSTOP');
  return criu;
}

/** Updates while CRIU is held in the middle of a checkpoint. */
async function updateMeanwhile(job: Container, { engine, meet }: Lane): Promise<void> {
  const criu = await stopCriu(job, engine);
  try {
    await meet(async () => {
      await updateTo(whileSaving);
      const sessions = await run('kfd-checkpoint', 'sessions');
      assert.equal(sessions.match(/^\d+ +checkpoint /gm)?.length, 2, sessions);
    });
  } finally {
    setLinkRate(0);
    process.kill(criu, 'SIGCONT');
  }
}

/** The session goes on with what it has loaded; what CRIU starts afterwards is of the new release. */
async function saveDuringUpdate(job: Container, archive: string, lane: Lane): Promise<void> {
  await lane.meet(() => setLinkRate(6));
  await Promise.all([save(job, archive), updateMeanwhile(job, lane)]);
}

async function remove(): Promise<void> {
  await apt('remove', 'kfd-checkpoint');
  assert.ok(!existsSync(spareSocket), 'the spare session runs on');
  assert.ok(!existsSync(loadedPlugin) && !existsSync(join(prefix, 'dist')));
  assert.equal(readFileSync(criuConf, 'utf8'), administrators);
  assert.ok(existsSync('/etc/kfd-checkpoint/config.json'), 'the configuration is to stay');
}

async function purge(): Promise<void> {
  await assertNothingLeft();
  await apt('purge', 'kfd-checkpoint', 'kfd-checkpoint-node');
  assert.deepEqual(differences(before, await listFiles()), []);
}

async function life(lane: Lane): Promise<void> {
  const { engine, meet } = lane;
  const archive = archivePath(engine, 'installed.tar');
  await plainLife(engine, 'before the installation');
  await meet(installFirst);
  await plainLife(engine, 'installed');
  await meet(setUp);
  await plainLife(engine, 'configured');

  const worker = ['--vram-mib', '32', '--pending-barrier', '--step-ms', '20'];
  const job = await Container.start({ engine, worker });
  await save(job, archive);
  await bringBack(job, archive);
  await meet(() => updateTo(whileRunning));
  await assertComputesOn(job);
  await plainLife(engine, 'updated while a container runs');

  await saveDuringUpdate(job, archive, lane);
  await bringBack(job, archive);
  await meet(enableSpare);
  await save(job, archive);
  await bringBack(job, archive);
  await meet(assertSpareWorked);
  await job.remove();
  await plainLife(engine, 'updated while a checkpoint runs');
  await meet(refreshByUnit);

  await meet(remove);
  const restored = await job.restore('--import', archive);
  // Without a folder of plugins CRIU does not ask which ones the image needs (criu/plugin.c:cr_plugin_init@0882383).
  assert.notEqual(restored.status, 0, 'restored without our plugin');
  await assertExplained(job, 'restore', restored, /files-ext\.c:\d+\): Unable to restore 0x/);
  await job.remove();
  await plainLife(engine, 'removed');
  await meet(purge);
  await plainLife(engine, 'purged');
}

scenario('packages are installed, updated while work goes on, removed and purged', life);
