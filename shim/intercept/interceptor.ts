/** What the shim does beyond passing calls on, for all containers of one stock shim. */

import { readdirSync, rm } from 'node:fs';
import { basename } from 'node:path';
import { imageFilePattern, manifestName } from '../../src/manifest/names.js';
import { decodeResponse, type Request, type Response, statusCode } from '../transport/envelope.js';
import { bytesField } from '../transport/fields.js';
import { readBundleSpec, restoreAnnotation, useOurPlugin } from './bundle-spec.js';
import { cgroupRoot } from './cgroup-root.js';
import { crunRefusal, isCrun } from './crun.js';
import type { Helper } from './helper.js';
import type { Child } from './interception.js';
import {
  type CreateRequest,
  createRequest,
  isTaskService,
  pausedState,
  processOf,
  restoringFrom,
} from './task-fields.js';

/** Folders into which containerd unpacks a checkpoint, and which it never removes. */
const temporaryImage = /^ctrd-checkpoint/;

interface Container {
  readonly bundle: string;
  /** Why it cannot be saved through containerd. */
  readonly refusal?: Response;
  /** CreateTaskRequest of a container that its first Start restores. */
  restoring?: { readonly create: Buffer; readonly image: string; readonly isTemporary: boolean };
  /** StateResponse while a checkpoint runs. */
  paused?: Buffer;
}

export class Interceptor {
  readonly #helper: Helper;
  readonly #report: (error: unknown) => void;
  readonly #containers = new Map<string, Container>();

  /** `report`: hears of what went wrong and stopped no call. */
  constructor(helper: Helper, report: (error: unknown) => void) {
    this.#helper = helper;
    this.#report = report;
  }

  /** See Intercept. Throws E_PROTOCOL when the request is no message. */
  intercept(call: Request, child: Child): Promise<Response> | undefined {
    if (!isTaskService(call.service)) return undefined;
    switch (call.method) {
      case 'Create':
        return this.#create(call.payload, createRequest(call.payload), child);
      case 'Start':
        return this.#start(call, child);
      case 'Checkpoint':
        return this.#checkpoint(call.payload, processOf(call.payload).id, child);
      case 'State':
        return this.#state(call);
      case 'Delete':
        this.#forget(call);
        return undefined;
      case 'Shutdown':
        return this.#shutdown(child);
      default:
        return undefined;
    }
  }

  async #create(request: Buffer, create: CreateRequest, child: Child): Promise<Response> {
    const { id, bundle, checkpoint, binary } = create;
    const { hasGpu, image } = await this.#prepare(create);
    const sent = image === checkpoint ? request : restoringFrom(request, image);
    const crunWithGpu = isCrun(binary) && (hasGpu || (image !== '' && hasImageOfOurs(image)));
    if (image !== '') {
      if (crunWithGpu) return crunRefusal;
      const refusal = hasGpu || hasImageOfOurs(image) ? await this.#preflight(sent) : undefined;
      if (refusal !== undefined) return refusal;
    }
    const response = await child.forward(sent);
    if (response.code !== statusCode.ok) return response;
    const isTemporary = image === checkpoint && temporaryImage.test(basename(image));
    const restoring = { create: sent, image, isTemporary };
    this.#containers.set(id, {
      bundle,
      ...(image !== '' && { restoring }),
      ...(crunWithGpu && { refusal: crunRefusal }),
    });
    return response;
  }

  /** A bundle that is not as expected is the stock shim's to complain of. */
  async #prepare({
    id,
    bundle,
    checkpoint,
    binary,
  }: CreateRequest): Promise<{ hasGpu: boolean; image: string }> {
    try {
      const spec = readBundleSpec(bundle);
      const annotated = spec.annotations[restoreAnnotation];
      const image = checkpoint === '' && typeof annotated === 'string' ? annotated : checkpoint;
      if (spec.hasGpu && !isCrun(binary)) {
        const cgroup = image === '' ? undefined : cgroupRoot(spec.cgroupsPath, id);
        await useOurPlugin(bundle, spec, cgroup);
      }
      return { hasGpu: spec.hasGpu, image };
    } catch (error) {
      this.#report(error);
      return { hasGpu: false, image: checkpoint };
    }
  }

  /** Why the image cannot be restored here. Whatever stops the look at it will stop the restore, too, later. */
  async #preflight(create: Buffer): Promise<Response | undefined> {
    const response = await this.#response(['preflight'], create);
    return response?.code === statusCode.ok ? undefined : response;
  }

  #start(call: Request, child: Child): Promise<Response> | undefined {
    const { id, execId } = processOf(call.payload);
    const container = this.#containers.get(id);
    const restoring = container?.restoring;
    if (container === undefined || restoring === undefined || execId !== '') return undefined;
    delete container.restoring;
    return this.#restore(container.bundle, restoring, child);
  }

  async #restore(
    bundle: string,
    { create, image, isTemporary }: NonNullable<Container['restoring']>,
    child: Child,
  ): Promise<Response> {
    const begun = Date.now();
    // A runc that is killed leaves CRIU at work, and tasks that nobody knows; a caller that has gone took the pipes with it, and
    // containerd takes what a new daemon finds here for a failure.
    const response = await child.forwardToEnd(() => {
      this.#helper(['cancel-restore'], create).catch(this.#report);
    });
    if (response.code !== statusCode.ok) {
      // It may have failed after CRIU, which nobody then stops.
      await this.#helper(['end-leftover'], create).catch(this.#report);
      return this.#explained('restore', bundle, begun, create, response);
    }
    if (isTemporary) {
      rm(image, { recursive: true }, (error) => {
        if (error !== null) this.#report(error);
      });
    }
    return response;
  }

  async #checkpoint(request: Buffer, id: string, child: Child): Promise<Response> {
    const container = this.#containers.get(id);
    if (container?.refusal !== undefined) return container.refusal;
    // The stock shim answers nothing about a container while it is saved.
    const paused = await this.#stateBefore(id, child);
    if (container !== undefined && paused !== undefined) container.paused = paused;
    const begun = Date.now();
    let tell: (request: Buffer) => void = () => undefined;
    const told = new Promise<Buffer>((resolve) => {
      tell = resolve;
    });
    // It takes longer to start than to publish.
    const published = this.#helper(['publish'], told).catch(this.#report);
    let response: Response | undefined;
    try {
      response = await child.forward();
    } finally {
      if (container !== undefined) delete container.paused;
      tell(response?.code === statusCode.ok ? request : Buffer.alloc(0));
    }
    await published;
    if (response.code === statusCode.ok) return response;
    return this.#explained('dump', container?.bundle ?? '', begun, request, response);
  }

  async #stateBefore(id: string, child: Child): Promise<Buffer | undefined> {
    try {
      const { code, payload } = await child.ask('State', bytesField(1, id));
      return code === statusCode.ok ? pausedState(payload) : undefined;
    } catch (error) {
      this.#report(error);
      return undefined;
    }
  }

  #state(call: Request): Promise<Response> | undefined {
    const { id, execId } = processOf(call.payload);
    const payload = execId === '' ? this.#containers.get(id)?.paused : undefined;
    return payload && Promise.resolve({ code: statusCode.ok, message: '', payload });
  }

  /**
   * Answered at once: the stock shim goes on if it has containers and ends otherwise, and says the same or nothing. Containerd
   * waits for it to remove a task.
   */
  #shutdown(child: Child): Promise<Response> {
    child.forward().catch(this.#report);
    return Promise.resolve({ code: statusCode.ok, message: '', payload: Buffer.alloc(0) });
  }

  #forget(call: Request): void {
    const { id, execId } = processOf(call.payload);
    if (execId === '') this.#containers.delete(id);
  }

  /** The stock shim's error with CRIU's own in it. */
  async #explained(
    operation: 'dump' | 'restore',
    bundle: string,
    begunMs: number,
    request: Buffer,
    response: Response,
  ): Promise<Response> {
    const args = ['explain', operation, bundle, String(begunMs), response.message];
    const explained = await this.#response(args, request);
    return explained === undefined ? response : { ...response, message: explained.message };
  }

  async #response(args: readonly string[], input: Buffer): Promise<Response | undefined> {
    try {
      return decodeResponse(await this.#helper(args, input));
    } catch (error) {
      this.#report(error);
      return undefined;
    }
  }
}

function hasImageOfOurs(directory: string): boolean {
  try {
    return readdirSync(directory).some(
      (name) => name === manifestName || imageFilePattern.test(name),
    );
  } catch {
    return false;
  }
}
