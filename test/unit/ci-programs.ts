/** Runs examples/ci/kfd-ci with stand-ins for podman and kfd-checkpoint, whose answers are files of a folder. */

import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { repository, temporaryFolder } from './paths.js';

export const script = join(repository, 'examples/ci/kfd-ci');

/**
 * `fail-WORD` makes the command with that word fail; `VERB.out`, `.err` and `.status` are answers of a verb. With
 * `exits`, what is run has ended when it is asked.
 */
const programs = {
  podman: `echo "podman $*" >>log
[ "$1" != --runtime ] || shift 2
case "$1 $2" in
'container exists') [ -e container ] && exit 0 || exit 1 ;;
'container inspect') [ -e container ] && cat container && exit 0 || exit 125 ;;
esac
for word; do
  case $option in --output) layout=$word && mkdir -p "$word/blobs" ;; --export) echo archive >"$word" ;; esac
  option=$word
done
for word; do
  [ ! -e "fail-$word" ] || { : >container; echo working >&2; cat "fail-$word" >&2; exit 125; }
done
case "$1 $2" in
'run --detach') [ -e exits ] && echo exited >container || echo running >container ;;
'logs '*) cat logs ;;
'exec '*) [ -e ready ] || exit 1 ;;
'rm '*) rm -f container ;;
'container checkpoint') echo exited >container ;;
'save '*) echo '{}' >"$layout/oci-layout" ;;
esac`,
  'kfd-checkpoint': `echo "kfd-checkpoint $*" >>log
[ "$1" != restore ] || echo running >container
[ ! -e "$1.out" ] || cat "$1.out"
[ ! -e "$1.err" ] || cat "$1.err" >&2
[ ! -e "$1.status" ] || exit "$(cat "$1.status")"`,
  // Nobody waits for real.
  sleep: ': >ready; [ -e logs ] && echo "serves now" >>logs; exit 0',
};

export interface Summary {
  readonly verb: string;
  readonly status: number;
  readonly start: string;
  readonly reason: string;
  readonly code: string;
  readonly message: string;
  readonly image: string;
  readonly container: string;
  readonly seconds: number;
  readonly steps: readonly { readonly name: string; readonly result: string }[];
  readonly report: Readonly<Record<string, unknown>> | null;
}

export class CiWorld {
  readonly folder: string;

  private constructor(folder: string) {
    this.folder = folder;
  }

  static async make(t: TestContext): Promise<CiWorld> {
    const folder = await temporaryFolder(t);
    await mkdir(join(folder, 'bin'));
    await mkdir(join(folder, 'tmp'));
    for (const [name, text] of Object.entries(programs)) {
      const path = join(folder, 'bin', name);
      await writeFile(path, `#!/bin/sh\ncd "${folder}" || exit 9\n${text}\n`);
      await chmod(path, 0o755);
    }
    return new CiWorld(folder);
  }

  put(name: string, text = ''): this {
    writeFileSync(join(this.folder, name), text);
    return this;
  }

  /** What a verb of kfd-checkpoint says the next times. */
  answer(verb: string, said: { code: number; stdout: string; stderr: string }): this {
    this.put(`${verb}.out`, said.stdout).put(`${verb}.err`, said.stderr);
    return this.put(`${verb}.status`, String(said.code));
  }

  has = (name: string): boolean => existsSync(join(this.folder, name));
  read = (name: string): string => readFileSync(join(this.folder, name), 'utf8');

  /** The commands that were run, without those that only ask. */
  commands(): string[] {
    const asks = /^podman (container (exists|inspect)|logs|exec) /;
    const lines = this.has('log') ? this.read('log').trimEnd().split('\n') : [];
    return lines.filter((line) => !asks.test(line));
  }

  /** Runs the script with dash, where it is there. */
  run(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
    const path = `${join(this.folder, 'bin')}:${process.env['PATH']}`;
    const { status, stdout, stderr } = spawnSync('sh', [script, ...args], {
      encoding: 'utf8',
      cwd: this.folder,
      env: { ...process.env, PATH: path, TMPDIR: join(this.folder, 'tmp'), ...env },
    });
    return { status, stdout, stderr };
  }

  /** The same, with its summary, which must be one JSON document and have the status. */
  summary(args: readonly string[], env: Readonly<Record<string, string>> = {}): Summary {
    const { status, stdout, stderr } = this.run(args, env);
    try {
      const summary = JSON.parse(stdout) as Summary;
      if (summary.status !== status) throw new Error(`status ${status}`);
      return summary;
    } catch (error) {
      throw new Error(`${args.join(' ')}: ${stdout}\n${stderr}`, { cause: error });
    }
  }
}
