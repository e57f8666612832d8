/** What a migration asks of the engine of a container, on either host. */

import type { Run } from '../os/exec.js';

export interface EngineSetting {
  /** Folder of the system. */
  readonly root: string;
  readonly run: Run;
  /** This program: Node.js and its arguments up to the verb. */
  readonly self: readonly [string, ...string[]];
}

/** An archive on its way. */
export interface ArchiveKind {
  /** What it becomes on the target: a file, or the task that is in it. */
  readonly form: 'file' | 'task';
  /** It has memory that is sent ahead, and not the checkpoint. */
  readonly isPrevious?: boolean;
}

export type ContainerState = 'runs' | 'paused' | 'stopped' | 'none';

/** A program and its words. `Work` runs it, so it outlives the process that has begun it. */
export type Command = readonly [program: string, ...words: string[]];

/** One container. What the engine says it has done is looked at afterwards. */
export interface EngineContainer {
  /** Throws E_HOST where the engine cannot say, E_TIMEOUT. Nothing may be concluded then. */
  readonly state: () => Promise<ContainerState>;
  /** It stands still. Where it cannot be paused it is killed. Throws as `state`, and E_HOST when it still runs. */
  readonly pause: () => Promise<void>;
  /** Without effect where it is stopped. Throws as `state`, and E_HOST when it stays paused. */
  readonly unpause: () => Promise<void>;
  /** Nothing of it is left, whatever state it was in. Throws as `state`, and E_HOST when something is left. */
  readonly remove: () => Promise<void>;
  /** Removes the stopped container, and refuses to remove one that runs. Throws as `state`, and E_HOST. */
  readonly forget: () => Promise<void>;
}

/** What a restore on the target takes. */
export interface Arrived {
  /** The folder of the migration. */
  readonly folder: string;
  /** Options of `restore` for the folders of GPU contents. */
  readonly contents: readonly string[];
  /** Options of `restore` that the source has chosen. */
  readonly choices: readonly string[];
}

/** Words of `restore`, which looks at what has arrived and waits then; or a program that does all of it. */
export type Start =
  | { readonly words: (arrived: Arrived) => readonly string[] }
  | { readonly command: (arrived: Arrived) => Command };

/** Where an archive that was taken apart has what is in it, by the folder of a migration. */
export interface ArrivedTask {
  /** The image directory. */
  readonly image: (folder: string) => string;
  /** The file of the container's record. */
  readonly record: (folder: string) => string;
}

export interface Engine {
  /** Of a failure. */
  readonly checkpointName: string;
  /** The folder of a checkpoint, in that of the migration on the source: the archive has all of it, too. */
  readonly kept?: string;
  /** The image directory of its checkpoints, where their sessions do not descend from this process. */
  readonly dumpImage?: string;
  readonly container: EngineContainer;
  /** Of its archives. */
  readonly form: ArchiveKind['form'];
  /** A checkpoint that ends the container and keeps it restorable here. Its archive goes to descriptor 4. */
  readonly checkpoint: (hasMemoryAhead: boolean) => Command;
  /** A checkpoint after which the container goes on. */
  readonly round: () => Command;
  /** Of a failure to save memory ahead. */
  readonly memoryAheadName: string;
  /** Host memory of the container, which goes on, to descriptor 4. */
  readonly memoryAhead: () => Command;
  /** Removes what is kept of that, where the container runs here again. Never throws. */
  readonly removeMemoryAhead: () => Promise<void>;
  /** Before `bringBack`: ends what a killed one has left. Throws E_HOST, Node's error. */
  readonly clearWay?: () => Promise<void>;
  /** Starts the stopped container from its checkpoint. `contents`: options of `restore`. */
  readonly bringBack: (contents: readonly string[]) => Command;
  /** Starts the container from what has arrived. */
  readonly start: Start;
  /** Of an engine whose start does not look at what has arrived. */
  readonly arrived?: ArrivedTask;
}
