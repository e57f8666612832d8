/** Descriptors as a session gets them: from another process, through its socket. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { type Descriptor, native } from '../../src/native.js';
import { boIndices, messageType } from '../../src/session/plugin/wire.js';
import { repository, temporaryFolder } from './paths.js';

/** The files at `paths`, at most 250, opened for reading and writing; closed with the test. */
export async function received(t: TestContext, paths: readonly string[]): Promise<Descriptor[]> {
  const socket = join(await temporaryFolder(t), 'sock');
  const descriptors: Descriptor[] = [];
  t.after(() => {
    for (const descriptor of descriptors) descriptor.close();
  });
  const peer = new EventEmitter();
  const end = once(peer, 'end');
  const listener = new (native().Listener)(socket, (delivery) => {
    if (delivery.closed === true) {
      peer.emit('end', delivery.reason);
      return;
    }
    assert.equal(delivery.type, messageType.dumpBuffers);
    assert.deepEqual(boIndices(delivery.body, delivery.fds.length), [...paths.keys()]);
    descriptors.push(...delivery.fds);
  });
  t.after(() => listener.close());
  const program = join(repository, 'build/native/send_files');
  const sender = spawn(program, [socket, ...paths], { stdio: 'inherit' });
  assert.deepEqual(await once(sender, 'exit'), [0, null]);
  assert.deepEqual(await end, [undefined]);
  assert.equal(descriptors.length, paths.length);
  return descriptors;
}
