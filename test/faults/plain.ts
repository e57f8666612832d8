/** Controls: the same signals on a container without a GPU, where nothing of this product runs. */

import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { archivePath } from '../e2e/support/archive.js';
import { attempt, run } from '../e2e/support/command.js';
import { type Engine, image } from '../e2e/support/container.js';
import type { OperationName } from './row.js';
import type { Judged, Subject } from './subject.js';
import { isFrozen } from './support/frozen.js';
import type { Ended } from './support/program.js';

const state = '{{.State.Status}} {{.StaticDir}}';
const flags = ['--compress', 'none', '--export'];

export class PlainSubject implements Subject {
  readonly #engine: Engine;
  readonly #name: string;
  readonly #archive: string;

  constructor(engine: Engine) {
    this.#engine = engine;
    this.#name = `${engine}-plain`;
    this.#archive = archivePath(engine, 'plain.tar');
  }

  async begin(operation: OperationName): Promise<{ words: string[] }> {
    await this.forget();
    const words = ['--runtime', this.#engine, 'run', '-d', '--name', this.#name];
    // CRIU ends a sleep early (compel/arch/x86/src/lib/infect.c:compel_get_task_regs@0a47e0f).
    const program = ['sh', '-c', 'while :; do sleep 1; done'];
    await run('podman', ...words, '--network', 'none', image, ...program);
    const leave = operation === 'plain-leave' ? ['--leave-running'] : [];
    const save = ['container', 'checkpoint', ...leave, ...flags, this.#archive, this.#name];
    if (operation !== 'plain-import') return { words: ['podman', ...save] };
    await run('podman', ...save);
    await run('podman', 'rm', '-f', '-t', '0', this.#name);
    return { words: ['podman', 'container', 'restore', '--import', this.#archive] };
  }

  async judge(operation: OperationName, ended: Ended): Promise<Judged> {
    const { stdout } = await attempt('podman', 'inspect', '-f', state, this.#name);
    const [status = 'none', bundle = ''] = stdout.split(' ');
    const image = existsSync(join(bundle, 'checkpoint/inventory.img')) ? ', an image stays' : '';
    const frozen = status !== 'exited' && (await isFrozen(this.#name)) ? ', stands still' : '';
    await attempt('podman', 'rm', '-f', '-t', '0', this.#name);
    const unknown = (await this.#endUnknown()) ? ', runs on when podman has removed it' : '';
    const outcome = `status ${ended.status}, container ${status || 'none'}${frozen}${image}${unknown}`;
    if (operation !== 'plain-import') return { outcome, problems: [] };
    const again = await attempt('podman', 'container', 'restore', '--import', this.#archive);
    if (again.status === 0) return { outcome, problems: [] };
    return { outcome, problems: [`a retry fails: ${again.stderr.slice(-200)}`] };
  }

  /** Whether the runtime has a container that podman does not know. It is ended. */
  async #endUnknown(): Promise<boolean> {
    const ids = (await run(this.#engine, 'list', '-q')).split('\n').filter(Boolean);
    for (const id of ids) await run(this.#engine, 'delete', '--force', id);
    return ids.length > 0;
  }

  async forget(): Promise<void> {
    await attempt('podman', 'rm', '-f', '-t', '0', this.#name);
    rmSync(this.#archive, { force: true });
  }
}
