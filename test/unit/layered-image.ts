/** Checkpoint images in layers, made by the real addon. */

import { execFileSync } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { runThrough } from '../../src/os/exec.js';
import { entriesOf, type Files, tarOf } from './archive-builder.js';
import { cli } from './cli-context.js';
import { services } from './drained-archive.js';
import { temporaryFolder } from './paths.js';

/** What the verb prints. */
export interface Report {
  readonly digest: string;
  readonly bytes: number;
  readonly new_bytes: number;
  readonly layers: readonly {
    readonly digest: string;
    readonly bytes: number;
    readonly new: boolean;
  }[];
}

export interface Descriptor {
  readonly digest: string;
  readonly size: number;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** A folder with a layout, and what verbs make of its images. */
export class Layered {
  readonly #folder: string;
  readonly dir: string;
  #archives = 0;

  private constructor(folder: string) {
    this.#folder = folder;
    this.dir = join(folder, 'layout');
  }

  static async make(t: TestContext): Promise<Layered> {
    return new Layered(await temporaryFolder(t));
  }

  /** Runs a verb with the real addon and tar. */
  run(...args: string[]) {
    const tar: typeof runThrough = async (command, ...rest) =>
      command === 'tar' ? runThrough(command, ...rest) : 0;
    return cli(args, { native: services, runThrough: tar });
  }

  async archive(files: Files): Promise<string> {
    const path = join(this.#folder, `job-${++this.#archives}.tar`);
    await writeFile(path, await tarOf(entriesOf(files)));
    return path;
  }

  /** Makes the image `tag` of a checkpoint. */
  async image(checkpoint: string, tag: string): Promise<Report> {
    const found = await this.run('image', '--format', 'json', checkpoint, this.name(tag));
    if (found.code !== 0) throw new Error(found.stderr);
    return JSON.parse(found.stdout);
  }

  name(tag: string): string {
    return `oci:${this.dir}:${tag}`;
  }

  blob(digest: string): string {
    return join(this.dir, 'blobs', digest.replace(':', '/'));
  }

  async document(digest: string) {
    return JSON.parse(await readFile(this.blob(digest), 'utf8'));
  }

  /** Unpacks all layers over each other, as an engine mounts them. */
  async unpacked({ layers }: Report): Promise<string> {
    const root = join(this.#folder, `root-${++this.#archives}`);
    await mkdir(root);
    for (const { digest } of layers) execFileSync('tar', ['-xf', this.blob(digest), '-C', root]);
    return root;
  }
}
