/**
 * A second host in the same guest: another storage of podman, other folders of crun and runc, and an `ssh` that leads
 * there. Both hosts have one kernel, one GPU, and one folder of migrations in /run.
 */

import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isOlder, parseCrun } from '../../../src/runtime/versions.js';
import { attempt, type Outcome, run } from './command.js';

const relay = fileURLToPath(new URL('./relay.js', import.meta.url));

/** What the stand-in answers instead of a connection, by files in its folder. */
type Fault = 'no-network' | 'hold-restore' | 'fail-restore';

/**
 * Where crun is from 1.24 on, both hosts have one state folder of crun: an image names it, and is restored with that
 * name alone (src/libcrun/criu.c:register_masked_paths_mounts@1.24).
 */
const crunHere = parseCrun(execFileSync('crun', ['--version'], { encoding: 'utf8' }));
const mayHaveOwnFolder = crunHere !== undefined && isOlder(crunHere, '1.24');

interface Options {
  readonly isRelayed?: boolean;
  readonly crun?: string | undefined;
}

export class SecondHost {
  readonly folder: string;
  /** With this PATH the source's ssh is the stand-in. */
  readonly path: string;
  /** A configuration of podman that names its OCI runtimes. */
  readonly runtimes: string;

  /** Calls `body` with one for the lane `name`, which is gone afterwards. `crun`: that of the second host. */
  static async during(
    name: string,
    body: (second: SecondHost) => Promise<void>,
    crun?: string,
  ): Promise<void> {
    const second = new SecondHost(name, { crun });
    try {
      await body(second);
    } finally {
      await second.close();
    }
  }

  /** `relay`: ssh is a process of its own, between both programs, and can be stopped or killed alone. */
  static open(name: string, ssh: 'becomes the program' | 'relay' = 'becomes the program') {
    return new SecondHost(name, { isRelayed: ssh === 'relay' });
  }

  private constructor(name: string, { isRelayed = false, crun }: Options) {
    this.folder = join('/var/tmp/second-host', name);
    this.path = `${join(this.folder, 'bin')}:${process.env['PATH']}`;
    this.runtimes = join(this.folder, 'there/containers.conf');
    rmSync(this.folder, { recursive: true, force: true });
    for (const part of ['bin', 'there']) mkdirSync(join(this.folder, part), { recursive: true });
    const { folder } = this;
    const roots = ['root', 'runroot', 'tmpdir'].map((one) => `--${one} ${folder}/${one}`).join(' ');
    const runtimes = [
      ...(crun !== undefined || mayHaveOwnFolder ? [['crun', crun ?? 'crun'] as const] : []),
      ['runc', 'runc'] as const,
    ];
    const path = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
    for (const [one, program] of runtimes)
      this.#write(`there/${one}`, `PATH=${path} exec ${program} --root ${folder}/run-${one} "$@"`);
    const paths = runtimes.map(([one]) => `${one} = ["${folder}/there/${one}"]`);
    writeFileSync(this.runtimes, `[engine.runtimes]\n${paths.join('\n')}\n`);
    this.#write(
      'there/podman',
      `export CONTAINERS_CONF_OVERRIDE=${this.runtimes}
case "$1 $2" in
'container restore')
  while [ -e ${folder}/hold-restore ]; do : >${folder}/hold-restore.reached; sleep 0.2; done
  if [ -e ${folder}/fail-restore ]; then echo 'Error: asked to fail' >&2; exit 125; fi ;;
esac
exec /usr/bin/podman ${roots} "$@"`,
    );
    this.#write(
      'bin/ssh',
      `while [ "$1" != -- ]; do shift; done
shift 2
[ ! -e ${folder}/no-network ] || { echo 'ssh: No route to host' >&2; exit 255; }
echo "$$ $*" >>${folder}/connections
PATH=${folder}/there:$PATH exec ${isRelayed ? `${process.execPath} ${relay} ` : ''}"$@"`,
    );
  }

  #write(name: string, body: string): void {
    writeFileSync(join(this.folder, name), `#!/bin/sh\n${body}\n`);
    chmodSync(join(this.folder, name), 0o755);
  }

  set(fault: Fault): void {
    writeFileSync(join(this.folder, fault), '');
  }

  unset(fault: Fault): void {
    rmSync(join(this.folder, fault), { force: true });
  }

  get isHeld(): boolean {
    return existsSync(join(this.folder, 'hold-restore.reached'));
  }

  /** Process ids of the connections, which became the target's programs, with their words. */
  connections(): { readonly pid: number; readonly words: string }[] {
    return readFileSync(join(this.folder, 'connections'), 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => ({ pid: Number.parseInt(line, 10), words: line.replace(/^\d+ /, '') }));
  }

  podman(...args: string[]): Promise<Outcome> {
    return attempt(join(this.folder, 'there/podman'), ...args);
  }

  /** "none" where the container is not there. */
  async state(container: string): Promise<string> {
    const { status, stdout } = await this.podman('inspect', '-f', '{{.State.Status}}', container);
    return status === 0 ? stdout : 'none';
  }

  /** The command of a migration: a program and its arguments. */
  words(container: string, ...options: string[]): [string, ...string[]] {
    const verb = ['kfd-checkpoint', 'migrate', ...options, container, 'second'];
    return ['env', `PATH=${this.path}`, ...verb];
  }

  migrate(container: string, ...options: string[]): Promise<Outcome> {
    return attempt(...this.words(container, ...options));
  }

  async close(): Promise<void> {
    await this.podman('rm', '-f', '-a', '-t', '0');
    await this.podman('rmi', '-f', '-a');
    await run('umount', '-l', join(this.folder, 'root/overlay')).catch(() => undefined);
    rmSync(this.folder, { recursive: true, force: true });
  }
}
