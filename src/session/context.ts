/** What dump and restore sessions share: the CRIU that asked, the image directory, the log. */

import { constants, openSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../config.js';
import { tellFreeze } from '../criu/freeze-moment.js';
import { runFolder } from '../criu/state-folder.js';
import { asKfdError, isMissing, KfdError } from '../errors.js';
import { createLogger, type Logger } from '../log.js';
import {
  type ContentsSender,
  type Delivery,
  fromNative,
  type Listener,
  native,
} from '../native.js';
import type { DumpRequest } from './contents/requests.js';
import { HostStaging } from './contents/staging.js';
import { Transfers } from './contents/transfers.js';
import { claimFolder, contentsLink } from './control/folders.js';
import { Phases } from './phases.js';

export type Operation = 'dump' | 'restore';

export interface SessionRequest {
  readonly operation: Operation;
  readonly criuPid: number;
  /** `/proc/<criu pid>/fd/<n>`. */
  readonly imageDirectory: string;
}

export class SessionContext {
  readonly config: Config;
  readonly request: SessionRequest;
  readonly phases = new Phases('prepare');
  readonly transfers: Transfers;
  readonly log: Logger;
  readonly logPath: string;
  /** The image directory by the session's own descriptor: CRIU closes its descriptor earlier. */
  readonly image: string;
  /** As in TransferContext. */
  readonly contents: string;
  /** The folder of the session's sockets. */
  readonly directory: string;
  readonly stream?: ContentsSender;
  /** Name of the process that has asked for the contents. */
  readonly command: string | undefined;
  readonly #asker: string | undefined;
  readonly #contents: DumpRequest['folder'] | undefined;
  #listener: Listener | undefined;

  /** `contents`: for the pages files of a checkpoint. Throws E_IMAGE_MISSING or E_IO. */
  constructor(request: SessionRequest, config: Config, contents?: DumpRequest) {
    this.request = request;
    this.config = config;
    this.image = `/proc/self/fd/${openImageDirectory(request.imageDirectory)}`;
    this.contents = contents?.folder.path ?? this.image;
    this.#contents = contents?.folder;
    this.command = contents?.command;
    this.#asker = contents?.asker;
    if (contents?.stream !== undefined) this.stream = openStream(contents.stream);
    const stamp = new Date().toISOString().replace(/[:.]/g, '-');
    this.logPath = join(config.log_dir, `${stamp}-${request.operation}-${request.criuPid}.log`);
    this.log = createLogger({
      file: this.logPath,
      base: { operation: request.operation, criu_pid: request.criuPid },
    });
    this.transfers = new Transfers(new HostStaging(config, this.log));
    this.directory = join(runFolder, String(request.criuPid));
  }

  /** Whoever has asked for the checkpoint learns that the tree stands still from now on. */
  tellFreeze(): void {
    if (this.#asker !== undefined) tellFreeze(this.#asker);
  }

  /** Opens the session's socket. Every delivery goes to `onDelivery`. Throws KFD_IO. */
  listen(onDelivery: (delivery: Delivery) => void): Listener {
    claimFolder(this.directory);
    // For the plugin, which removes the files of a session that was killed.
    const { name } = this.#contents ?? {};
    const link = join(this.directory, contentsLink);
    rmSync(link, { force: true });
    if (name !== undefined) symlinkSync(name, link);
    this.#listener = new (native().Listener)(join(this.directory, 'sock'), onDelivery);
    return this.#listener;
  }

  /** Closes the socket and removes its folder. Later stages of CRIU then see that there is no session. */
  close(): void {
    this.#listener?.close();
    rmSync(this.directory, { recursive: true, force: true });
  }
}

/** From now on the reader waits for this session. Throws E_IO. */
function openStream(path: string): ContentsSender {
  try {
    return new (native().ContentsSender)(path);
  } catch (error) {
    throw fromNative(error, path);
  }
}

function openImageDirectory(path: string): number {
  try {
    return openSync(path, constants.O_RDONLY | constants.O_DIRECTORY);
  } catch (error) {
    if (!isMissing(error)) throw asKfdError(error, 'image directory');
    throw new KfdError('E_IMAGE_MISSING', `${path}: no such image directory`, {
      cause: error,
      hint: 'CRIU has ended or closed it: see its own log',
    });
  }
}
