/** The calls that the shim does not simply forward, for all containers of one stock shim. */

import { rm } from 'node:fs';
import { basename, dirname } from 'node:path';
import { linkedImage } from '../../src/criu/task-link.js';
import { restoreAnnotation } from '../../src/runtime/shim-names.js';
import { stage } from '../../src/stages.js';
import { type Call, decodeResponse, type Response, statusCode } from '../../src/ttrpc/envelope.js';
import {
  isSandbox,
  namesImage,
  type Places,
  readBundleSpec,
  restoreImage,
  useOurPlugin,
} from './bundle-spec.js';
import { cgroupRoot } from './cgroup-root.js';
import { type CheckpointContext, Checkpoints } from './checkpoints.js';
import { crunRefusal, isCrun } from './crun.js';
import type { Helper } from './helper.js';
import type { Upstream } from './interception.js';
import { hasOurImage } from './own-image.js';
import { withParentImage } from './parent-image.js';
import { Restore } from './restore.js';
import {
  type CreateRequest,
  createRequest,
  hasParent,
  isSigkill,
  isStop,
  isTaskService,
  processOf,
  restoringFrom,
} from './task-fields.js';
import { isTemporaryImage, temporaryFolder } from './temporary-image.js';

interface Container {
  readonly bundle: string;
  /** The answer to Checkpoint, for a container that cannot be restored later. */
  readonly refusal?: Response;
  /** CreateTaskRequest of a container that its first Start restores. */
  restoring?: {
    readonly create: Buffer;
    readonly image: string;
    /** Whether it goes after a restore. */
    readonly isTemporary: boolean;
    /** It is a copy of ours, which goes after a failure, too. */
    readonly isCopy: boolean;
    readonly outputs: readonly string[];
  };
  readonly checkpoints: Checkpoints;
  /** While it runs. */
  restore?: Restore;
}

export class Interceptor {
  readonly #helper: Helper;
  readonly #report: (error: unknown) => void;
  readonly #context: CheckpointContext;
  readonly #places: Places;
  readonly #containers = new Map<string, Container>();

  /** `report` receives errors that stopped no call. `folder`: where containerd unpacks checkpoints. */
  constructor(
    helper: Helper,
    report: (error: unknown) => void,
    folder = temporaryFolder(),
    places: Places = {},
  ) {
    this.#helper = helper;
    this.#report = report;
    this.#places = places;
    this.#context = { helper, report, temporaryFolder: folder };
  }

  /** See Intercept. Throws E_PROTOCOL when the request is not a protobuf message. */
  intercept(call: Call, upstream: Upstream): Promise<Response> | undefined {
    if (!isTaskService(call.service)) return undefined;
    switch (call.method) {
      case 'Create':
        return this.#create(call.payload, createRequest(call.payload), upstream);
      case 'Start':
        return this.#start(call, upstream);
      case 'Checkpoint':
        return this.#checkpoint(call, upstream);
      case 'State':
        return this.#state(call);
      case 'Pause':
        return this.#containers.get(processOf(call.payload).id)?.checkpoints.pause(upstream);
      case 'Resume':
        return this.#containers.get(processOf(call.payload).id)?.checkpoints.resume(upstream);
      case 'Kill':
        return this.#kill(call, upstream);
      case 'Delete':
        return this.#delete(call, upstream);
      case 'Shutdown':
        return this.#shutdown(upstream);
      default:
        return undefined;
    }
  }

  async #create(request: Buffer, create: CreateRequest, upstream: Upstream): Promise<Response> {
    const { id, bundle, checkpoint, outputs, binary } = create;
    const { hasGpu, image: named } = await this.#prepare(create);
    const isOwn = named === checkpoint && isTemporaryImage(named, this.#context.temporaryFolder);
    let image = named;
    let sent = image === checkpoint ? request : restoringFrom(request, image);
    const crunWithGpu = isCrun(binary) && (hasGpu || (image !== '' && hasOurImage(image)));
    if (image !== '') {
      if (crunWithGpu) return crunRefusal;
      const answer = hasGpu || hasOurImage(image) ? await this.#preflight(sent, isOwn) : undefined;
      if (answer !== undefined && answer.code !== statusCode.ok) return answer;
      if (answer !== undefined && answer.payload.length > 0) {
        image = answer.payload.toString();
        sent = restoringFrom(request, image);
      }
    }
    const isCopy = image !== named;
    stage('shim', 'creating');
    const response = await upstream.forward(sent);
    stage('shim', 'created');
    if (response.code !== statusCode.ok) {
      if (isCopy) this.#remove(image);
      return response;
    }
    const restoring = { create: sent, image, isTemporary: isOwn || isCopy, isCopy, outputs };
    this.#containers.set(id, {
      bundle,
      checkpoints: new Checkpoints(id, this.#context, sent),
      ...(image !== '' && { restoring }),
      ...(crunWithGpu && { refusal: crunRefusal }),
    });
    return response;
  }

  /** Ignores a bundle that is not as expected, because the stock shim reports it. */
  async #prepare({
    id,
    bundle,
    checkpoint,
    binary,
  }: CreateRequest): Promise<{ hasGpu: boolean; image: string }> {
    try {
      const spec = readBundleSpec(bundle);
      const linked = linkedImage({ namespace: basename(dirname(bundle)), id }, this.#places.run);
      const image = checkpoint === '' ? (linked ?? restoreImage(spec) ?? '') : checkpoint;
      if (isSandbox(spec) && namesImage(spec))
        this.#report(`${id}: ${restoreAnnotation} of the pod is ignored for its sandbox`);
      if (spec.hasGpu && !isCrun(binary)) {
        const cgroup = image === '' ? undefined : cgroupRoot(spec.cgroupsPath, id);
        await useOurPlugin(bundle, spec, cgroup, this.#places);
      }
      return { hasGpu: spec.hasGpu, image };
    } catch (error) {
      this.#report(error);
      return { hasGpu: false, image: checkpoint };
    }
  }

  /**
   * The reason why the image cannot be restored here, or the copy to restore from as the payload. Undefined when the
   * pre-flight itself fails: its cause makes the restore fail later.
   */
  #preflight(create: Buffer, isOwn: boolean): Promise<Response | undefined> {
    return this.#response(['preflight', isOwn ? 'move-own' : 'move'], create);
  }

  #remove(image: string): void {
    rm(image, { recursive: true }, (error) => {
      if (error !== null) this.#report(error);
    });
  }

  #start(call: Call, upstream: Upstream): Promise<Response> | undefined {
    const { id, execId } = processOf(call.payload);
    const container = this.#containers.get(id);
    const restoring = container?.restoring;
    if (container === undefined || restoring === undefined || execId !== '') return undefined;
    delete container.restoring;
    return this.#restore(id, container, restoring, upstream);
  }

  #restore(
    id: string,
    container: Container,
    { create, image, isTemporary, isCopy, outputs }: NonNullable<Container['restoring']>,
    upstream: Upstream,
  ): Promise<Response> {
    const begun = Date.now();
    stage('shim', 'restoring');
    const restore = new Restore(id, this.#context, create);
    container.restore = restore;
    const answer = restore.run(upstream, outputs, async (response) => {
      stage('shim', 'restored');
      if (response.code !== statusCode.ok) {
        // It may have failed after CRIU has restored the tasks. Nobody else ends them.
        await this.#helper(['end-leftover'], create).catch(this.#report);
        if (isCopy) this.#remove(image);
        return this.#explained('restore', container.bundle, begun, create, response);
      }
      if (isTemporary) this.#remove(image);
      return response;
    });
    return answer.finally(() => delete container.restore);
  }

  /** During a restore or a checkpoint. */
  #kill(call: Call, upstream: Upstream): Promise<Response> | undefined {
    const { id, execId } = processOf(call.payload);
    if (execId !== '') return undefined;
    const container = this.#containers.get(id);
    if (isStop(call.payload)) container?.checkpoints.cancel();
    return isSigkill(call.payload) ? container?.restore?.kill(upstream) : undefined;
  }

  #checkpoint(call: Call, upstream: Upstream): Promise<Response> {
    const { id } = processOf(call.payload);
    const container = this.#containers.get(id);
    if (container?.refusal !== undefined) return Promise.resolve(container.refusal);
    const begun = Date.now();
    stage('shim', 'saving');
    let setEvent: (request: Buffer) => void = () => undefined;
    const event = new Promise<Buffer>((resolve) => {
      setEvent = resolve;
    });
    // The helper starts now, because its start takes longer than its work.
    const published = this.#helper(['publish'], event).catch(this.#report);
    const none = Buffer.alloc(0);
    const checkpoints = container?.checkpoints ?? new Checkpoints(id, this.#context);
    const bundle = container?.bundle ?? '';
    const run = () =>
      checkpoints.run(call, upstream, async (response) => {
        stage('shim', 'saved');
        setEvent(response.code === statusCode.ok ? call.payload : none);
        await published;
        if (response.code === statusCode.ok) return response;
        return this.#explained('dump', bundle, begun, call.payload, response);
      });
    const isPart = container !== undefined && hasParent(call.payload);
    const answer = isPart ? withParentImage(bundle, this.#report, run) : run();
    return answer.finally(() => setEvent(none));
  }

  #state(call: Call): Promise<Response> | undefined {
    const { id, execId } = processOf(call.payload);
    const payload = execId === '' ? this.#containers.get(id)?.checkpoints.state : undefined;
    return payload && Promise.resolve({ code: statusCode.ok, message: '', payload });
  }

  /**
   * Answers at once, because containerd waits for the answer before it removes a task. The stock shim
   * runs on if it has containers and answers the same. Otherwise it ends and may not answer at all.
   */
  #shutdown(upstream: Upstream): Promise<Response> {
    upstream.forward().catch(this.#report);
    return Promise.resolve({ code: statusCode.ok, message: '', payload: Buffer.alloc(0) });
  }

  /** The stock shim keeps a container that it cannot delete, such as a running one. */
  #delete(call: Call, upstream: Upstream): Promise<Response> | undefined {
    const { id, execId } = processOf(call.payload);
    const container = this.#containers.get(id);
    if (execId !== '' || container === undefined) return undefined;
    const deleted = container.restore?.delete(upstream) ?? upstream.forward();
    return deleted.then((response) => {
      const isKnown = response.code !== statusCode.ok && response.code !== statusCode.notFound;
      if (isKnown || this.#containers.get(id) !== container) return response;
      this.#containers.delete(id);
      // It was never started.
      if (container.restoring?.isCopy === true) this.#remove(container.restoring.image);
      return response;
    });
  }

  /** Adds CRIU's error to the error of the stock shim. */
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
