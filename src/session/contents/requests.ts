/** Folders of GPU contents that a command has asked for: src/criu/contents-request.ts. */

import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { commandFolderName, commandOf } from '../../criu/command-folder.js';
import {
  type ContentsRequest,
  decodeRequest,
  requestFileName,
} from '../../criu/contents-request.js';
import { runFolder } from '../../criu/state-folder.js';
import { asKfdError, isMissing, KfdError } from '../../errors.js';
import { hasPagesFiles } from '../../manifest/image.js';
import { lineage, processNameIfAny } from '../../os/ancestors.js';
import { readTextIfAny } from '../../os/files.js';
import { type OwnFolder, openOwnFolder } from '../../os/own-folder.js';

/** The largest request, bytes. */
const maxRequestBytes = 4 << 20;

/** Where a dump puts its pages files. */
export interface DumpRequest {
  readonly folder: OwnFolder;
  /** Path of a FIFO that gets them, too. */
  readonly stream?: string;
  /** Name of the process that has asked, the command. */
  readonly command: string;
  /** Folder of that command: src/criu/freeze-moment.ts. */
  readonly asker: string;
}

type AskedDump = Extract<ContentsRequest, { operation: 'dump' }>;

/**
 * What somebody has asked for the pages files of the dump that CRIU `criuPid` makes to `image`; undefined: nobody has.
 * A request of an ancestor of CRIU comes first, then that of a running command for this image directory. Throws E_IO
 * for a request or a folder that cannot be used, E_NOT_FOUND, E_USAGE for a folder with pages files.
 */
export async function requestedForDump(
  criuPid: number,
  image: string,
  run = runFolder,
): Promise<DumpRequest | undefined> {
  const folderOf = (process: string) => join(run, commandFolderName('contents', process));
  for (const command of lineage(criuPid)) {
    const request = await requestIn(folderOf(command));
    if (request?.operation === 'dump') return taken(request, command, folderOf(command));
  }
  for (const command of await runningCommands(run)) {
    // What is wrong with a request for something else is no fault of this dump.
    const request = await requestIn(folderOf(command)).catch(() => undefined);
    if (request?.operation !== 'dump' || request.image === undefined) continue;
    if (await isSame(request.image, image)) return taken(request, command, folderOf(command));
  }
  return undefined;
}

async function isSame(one: string, other: string): Promise<boolean> {
  const found = await Promise.all([one, other].map((path) => stat(path).catch(() => undefined)));
  const [a, b] = found;
  return a !== undefined && b !== undefined && a.dev === b.dev && a.ino === b.ino;
}

async function taken(
  { folder: name, stream }: AskedDump,
  command: string,
  asker: string,
): Promise<DumpRequest> {
  const folder = await openOwnFolder(name);
  if (!(await hasPagesFiles(folder.path)))
    return { folder, command, asker, ...(stream && { stream }) };
  await folder.close();
  throw new KfdError('E_USAGE', `${name}: has pages files already`, {
    hint: 'name a folder for this checkpoint alone',
  });
}

/**
 * The folders with the contents of the image whose pages files have these `roots`, and of its ancestors; empty when
 * nobody has named them. A request of an ancestor of CRIU comes first, then the newest of a running command. Throws
 * E_IO, E_NOT_FOUND for a folder that cannot be used.
 */
export async function requestedForRestore(
  criuPid: number,
  roots: readonly string[],
  run = runFolder,
): Promise<readonly OwnFolder[]> {
  const folderOf = (process: string) => join(run, commandFolderName('contents', process));
  const open = async (request: ContentsRequest | undefined) => {
    if (request?.operation !== 'restore') return undefined;
    const named = new Set(request.roots);
    if (!roots.every((root) => named.has(root))) return undefined;
    return openAll(request.folders);
  };
  for (const process of lineage(criuPid)) {
    const folders = await open(await requestIn(folderOf(process)));
    if (folders !== undefined) return folders;
  }
  for (const process of await runningCommands(run)) {
    // What is wrong with a request for something else is no fault of this restore.
    const folders = await open(await requestIn(folderOf(process)).catch(() => undefined));
    if (folders !== undefined) return folders;
  }
  return [];
}

/** All of them or none. */
async function openAll(names: readonly string[]): Promise<readonly OwnFolder[]> {
  const open: OwnFolder[] = [];
  try {
    for (const name of names) open.push(await openOwnFolder(name));
    return open;
  } catch (error) {
    for (const folder of open) await folder.close();
    throw error;
  }
}

/** The newest first. */
async function runningCommands(run: string): Promise<string[]> {
  const names = await readdir(run).catch((error: unknown) => {
    if (isMissing(error)) return [];
    throw asKfdError(error, run);
  });
  const commands = names.flatMap((name) => {
    const command = commandOf(name);
    if (command?.kind !== 'contents') return [];
    return processNameIfAny(command.pid) === command.process ? [command.process] : [];
  });
  const startOf = (process: string) => BigInt(process.slice(process.indexOf('-') + 1));
  return commands.sort((a, b) => (startOf(a) < startOf(b) ? 1 : -1));
}

/** undefined where there is none, or where its command has just removed it. */
async function requestIn(folder: string): Promise<ContentsRequest | undefined> {
  try {
    const own = await openOwnFolder(folder);
    try {
      const text = await readTextIfAny(join(own.path, requestFileName), maxRequestBytes);
      return text === undefined ? undefined : decodeRequest(text);
    } finally {
      await own.close();
    }
  } catch (error) {
    if (error instanceof KfdError && error.code === 'E_NOT_FOUND') return undefined;
    throw asKfdError(error, `${folder}: the folders of GPU contents`);
  }
}
