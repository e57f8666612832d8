/** Who restarts containerd when the DaemonSet asks systemd for it: systemd, or a stand-in where the guest has none. */

import { chmodSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { run, until } from '../../e2e/support/command.js';
import {
  answers,
  config,
  daemonLog,
  nextRelease,
  temporary,
} from '../../e2e/support/containerd.js';
import { memoryLimit } from './daemon.js';

export interface Restarts {
  /** Waits for the next one. Returns when containerd answers again. */
  next(): Promise<void>;
  /** Whether there was one that nobody has waited for. */
  isDue(): Promise<boolean>;
}

const unit = 'containerd.service';
const unitFile = `/run/systemd/system/${unit}`;

/** As containerd's own unit has it, but for what waits for the rest of a system. Shims and containers outlive it. */
const text = `[Unit]
DefaultDependencies=no
[Service]
Environment=PATH=${nextRelease}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
Environment=TMPDIR=${temporary} GOMEMLIMIT=${memoryLimit}
ExecStart=${nextRelease}/containerd -c ${config}
StandardOutput=append:${daemonLog}
StandardError=append:${daemonLog}
KillMode=process
Delegate=yes
LimitNOFILE=infinity
TasksMax=infinity
`;

export class ContainerdUnit implements Restarts {
  #pid = '';

  /** There must be no other daemon meanwhile. */
  static async during(body: (own: ContainerdUnit) => Promise<void>): Promise<void> {
    writeFileSync(unitFile, text);
    await run('systemctl', 'daemon-reload');
    const own = new ContainerdUnit();
    try {
      await run('systemctl', 'start', unit);
      await answers();
      own.#pid = await own.#mainPid();
      await body(own);
    } finally {
      await run('systemctl', 'stop', unit);
      rmSync(unitFile);
      await run('systemctl', 'daemon-reload');
    }
  }

  async next(): Promise<void> {
    await until('a restart of containerd', () => this.isDue(), 240, 250);
    await answers();
    this.#pid = await this.#mainPid();
  }

  async isDue(): Promise<boolean> {
    const pid = await this.#mainPid();
    return pid !== '0' && pid !== this.#pid;
  }

  #mainPid(): Promise<string> {
    return run('systemctl', 'show', '--property', 'MainPID', '--value', unit);
  }
}

/** Notes what it is asked for. */
const standIn = '/usr/local/bin/systemctl';
const asked = '/run/asked-of-systemctl';

export class StandInRestarts implements Restarts {
  readonly #restart: () => Promise<void>;

  private constructor(restart: () => Promise<void>) {
    this.#restart = restart;
  }

  /** `restart`: what becomes of what is asked for. */
  static async during(
    restart: () => Promise<void>,
    body: (own: StandInRestarts) => Promise<void>,
  ): Promise<void> {
    writeFileSync(standIn, `#!/bin/sh\necho "$*" >>${asked}\n`);
    chmodSync(standIn, 0o755);
    try {
      await body(new StandInRestarts(restart));
    } finally {
      rmSync(standIn);
      rmSync(asked, { force: true });
    }
  }

  async next(): Promise<void> {
    await until('a restart of containerd', () => this.isDue(), 240, 250);
    rmSync(asked);
    await this.#restart();
  }

  async isDue(): Promise<boolean> {
    return (
      existsSync(asked) && /^restart .*containerd\.service$/m.test(readFileSync(asked, 'utf8'))
    );
  }
}
