/** What containerd of the target says: whether it answers, has the image, and would start our shim. Changes nothing. */

import { Ctr } from '../../containerd/ctr.js';
import { findsOurShim } from '../../containerd/shim-path.js';
import { asKfdError } from '../../errors.js';
import type { Run } from '../../os/exec.js';
import type { Facts, Question } from './documents.js';

interface Found extends Pick<Facts, 'failures' | 'name_taken' | 'image_id' | 'engine_silent'> {
  /** Where it restores to. */
  readonly folder?: string | undefined;
}

/** It is asked by `ctr`, as a start would be. */
const askMs = 20_000;

/** Throws Node's error where this host cannot be looked at. */
export async function containerdThere(
  { namespace = 'default', container, image, runtime }: Question,
  run: Run,
  root: string,
): Promise<Found> {
  const failures = runtime === undefined ? [] : await shimFailures(runtime, root);
  const ctr = new Ctr(run, namespace);
  try {
    await ctr.must(['version'], askMs);
    const isTaken = (await ctr.record(container)) !== undefined;
    const digest = await ctr.imageDigest(image);
    const found = { failures, name_taken: isTaken, folder: await ctr.contentFolder() };
    return { ...found, ...(digest !== undefined && { image_id: digest }) };
  } catch (error) {
    const { message } = asKfdError(error, 'containerd');
    return { failures, name_taken: false, engine_silent: message.slice(0, 1024) };
  }
}

async function shimFailures(runtime: string, root: string): Promise<Facts['failures']> {
  if (await findsOurShim(runtime, root)) return [];
  return [
    {
      name: 'shim',
      message: `containerd does not find containerd-shim-kfd-v2 for the runtime ${runtime}`,
      hint: 'put a link to it into a folder of PATH of containerd; see "kfd-checkpoint check" there',
    },
  ];
}
