import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { GpuPair } from '../../src/gpu/pair.js';
import type { Manifest } from '../../src/manifest/schema.js';
import type { StateSummary } from '../../src/native.js';
import { Phases } from '../../src/session/phases.js';
import type { Message } from '../../src/session/plugin/message.js';
import { RestoreFiles } from '../../src/session/restore/files.js';
import { RestoreImage } from '../../src/session/restore/image.js';
import { hostWith } from './host-builder.js';
import { sampleManifest } from './manifest-sample.js';

/** Answers to a task that asks for the render file with KFD's memory on its second GPU. */
function answerFor(files: Manifest['ext_files'], renderVmas: number, which = 0) {
  const manifest = { ...sampleManifest(), ext_files: files };
  const host = hostWith({ render_minor: 4000140 }, { render_minor: 4000141 });
  const pairs = manifest.gpus.map((recorded, i) => ({ recorded, present: host.gpus[i] }));
  const summary = {
    devices: [
      { userGpuId: 1, actualGpuId: 51966, renderVmas: 0 },
      { userGpuId: 2, actualGpuId: 47806, renderVmas },
    ],
  } as unknown as StateSummary;
  const readState = async () => Buffer.alloc(0);
  const processes = [{ ordinal: 0, summary, kfdBos: 0, renderStates: [], readState }];
  const plan = {
    manifest,
    host,
    pairs: pairs as GpuPair[],
    ignored: [],
    risks: [],
    processes,
    pages: new Map(),
    folders: [],
    wants: undefined,
    root: '/',
  };
  const restore = new RestoreFiles(new RestoreImage(plan), new Phases('a'), 1);
  return restore.renderFile({ args: [0, 2, which], fds: [] } as unknown as Message);
}
const held = (gpu: number) => ({ criu_id: 6, kind: 'render', process: 0, gpu }) as const;

test('a render file that the application has or maps is opened in the container', () => {
  const inContainer = { text: '/dev/dri/renderD4000141', args: [226, 4000141] };
  assert.deepEqual(answerFor([held(1)], 0), inContainer);
  assert.deepEqual(answerFor([], 1), inContainer);
  assert.deepEqual(answerFor([held(0)], 0, 7), inContainer); // a file beside KFD's memory
});

test('the container needs no node of a GPU that its process only may use', () => {
  // The session opens it on the host, and this host has no such node.
  for (const files of [[held(0)], []]) {
    assert.throws(() => answerFor(files, 0), { message: /renderD4000141: No such file/ });
  }
});
