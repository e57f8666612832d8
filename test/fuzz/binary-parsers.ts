/** Bytes of containerd, of the stock shim, of the plugin, and of KFD. */

import assert from 'node:assert/strict';
import { parseAnswer } from '../../shim/bootstrap/answer.js';
import { cgroupRoot } from '../../shim/intercept/cgroup-root.js';
import { createRequest, pausedState, processOf } from '../../shim/intercept/task-fields.js';
import { externalMounts } from '../../src/archive/criu-mounts.js';
import { kfdObjectsOf } from '../../src/gpu/kfd-objects.js';
import {
  controlFrame,
  frameHeader,
  greeting,
  FrameReader as MigrationReader,
} from '../../src/migrate/wire/frame.js';
import { decodeMessage, encodeMessage } from '../../src/migrate/wire/messages.js';
import { bytesField, fieldsOf, numberField } from '../../src/protobuf.js';
import { boIndices } from '../../src/session/plugin/wire.js';
import {
  decodeRequest,
  decodeResponse,
  encodeRequest,
  encodeResponse,
  withPayload,
} from '../../src/ttrpc/envelope.js';
import { encodeFrame, FrameReader } from '../../src/ttrpc/frame.js';
import { mountsImage } from '../unit/mounts-image.js';
import { stateBytes } from '../unit/state-builder.js';
import { type Parser, unlessRefused } from './parser.js';

const frames: Parser = {
  name: 'ttrpc-frames',
  seeds: [
    Buffer.concat([encodeFrame(1, 1, Buffer.from('abc')), encodeFrame(3, 2, Buffer.alloc(0))]),
    encodeFrame(5, 3, Buffer.alloc(3000, 7), 4),
  ],
  tokens: ['\0\0\0\0', '\xff\xff\xff\xff', '\0\x40\0\0', '\0\x40\0\x01', '\x01', '\x02'],
  run(input) {
    const read = (pieces: readonly Buffer[]): string[] => {
      const found: string[] = [];
      const reader = new FrameReader({
        frame: ({ streamId, type, flags, bytes }) =>
          found.push(`${streamId} ${type} ${flags} ${bytes.toString('hex')}`),
        oversized: (streamId, type, bytes) => found.push(`over ${streamId} ${type} ${bytes}`),
      });
      for (const piece of pieces) reader.push(Buffer.from(piece));
      return found;
    };
    const whole = read([input]);
    const half = Math.floor(input.length / 2);
    assert.deepEqual(read([input.subarray(0, half), input.subarray(half)]), whole);
    if (input.length < 200)
      assert.deepEqual(read([...input].map((byte) => Buffer.of(byte))), whole);
  },
};

const request = encodeRequest(
  { service: 'containerd.task.v2.Task', method: 'Create', payload: Buffer.from('p') },
  5n,
);
const runcOptions = Buffer.concat([
  bytesField(1, 'containerd.runc.v1.Options'),
  bytesField(2, bytesField(6, '/usr/bin/crun')),
]);
const create = Buffer.concat([
  bytesField(1, 'id'),
  bytesField(2, '/bundle'),
  bytesField(8, '/image'),
  bytesField(10, runcOptions),
]);

const messages: Parser = {
  name: 'protobuf',
  seeds: [
    request,
    create,
    encodeResponse({ code: 5, message: 'no', payload: Buffer.from('x') }),
    Buffer.concat([numberField(4, 2n), bytesField(1, 'id')]),
  ],
  tokens: [
    '\x08',
    '\x0a',
    '\x12',
    '\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01',
    '\x80',
    '\x0b',
    '\x0d',
  ],
  run(input) {
    const all = unlessRefused(['E_PROTOCOL'], () => [...fieldsOf(input)]);
    const call = unlessRefused(['E_PROTOCOL'], () => decodeRequest(input));
    const answer = unlessRefused(['E_PROTOCOL'], () => decodeResponse(input));
    unlessRefused(['E_PROTOCOL'], () => [
      processOf(input),
      createRequest(input),
      pausedState(input),
    ]);
    assert.equal(call === undefined, all === undefined);
    if (all === undefined || call === undefined) return;
    assert.deepEqual(Buffer.concat(all.map(({ raw }) => raw)), input, 'no byte is lost');
    const { payload } = decodeRequest(withPayload(input, Buffer.from('other')));
    assert.equal(payload.toString(), 'other');
    assert.deepEqual(decodeRequest(encodeRequest(call, call.timeoutNs)), call);
    if (answer !== undefined) assert.deepEqual(decodeResponse(encodeResponse(answer)), answer);
  },
};

const answers: Parser = {
  name: 'shim-answer',
  seeds: [
    Buffer.from('unix:///run/containerd/s/abc\n'),
    Buffer.from('{"version":3,"address":"unix:///run/containerd/s/abc","protocol":"ttrpc"}'),
    Buffer.concat([
      numberField(1, 3n),
      bytesField(2, 'unix:///run/containerd/s/abc'),
      bytesField(3, 'ttrpc'),
    ]),
  ],
  tokens: ['unix://', '{', '}', '"address":', '"protocol":"ttrpc"', '\x12', '\n', '/', ','],
  run(input) {
    const answer = unlessRefused(['E_PROTOCOL'], () => parseAnswer(input));
    if (answer === undefined) return;
    assert.ok(answer.socket.startsWith('/'));
    const again = parseAnswer(answer.withSocket('/run/other'));
    assert.equal(again.socket, '/run/other');
  },
};

const cgroups: Parser = {
  name: 'cgroups-path',
  seeds: ['kubepods-besteffort.slice:cri-containerd:abc', '/kubepods/abc', '', 'a-b.slice::x'].map(
    (text) => Buffer.from(text),
  ),
  tokens: ['.slice', ':', '/', '-', '..', '.', '\n', ' '],
  run(input) {
    const root = cgroupRoot(input.toString(), 'id');
    if (root === undefined) return;
    assert.ok(root.startsWith('/') && !/[\s\0]/.test(root), root);
    assert.ok(!root.split('/').includes('..'), root);
  },
};

const buffers: Parser = {
  name: 'bo-indices',
  seeds: [Buffer.from([1, 0, 0, 0, 2, 0, 0, 0])],
  tokens: ['\xff\xff\xff\xff'],
  run(input) {
    for (const count of [0, 1, 2, Math.floor(input.length / 4)]) {
      const found = unlessRefused(['E_PROTOCOL'], () => boIndices(input, count));
      assert.equal(found !== undefined, input.length === 4 * count);
    }
  },
};

const queue = { gpuId: 7, ringBytes: 4096, priority: 7, mqd: 2048, controlStack: 512 };
const states: Parser = {
  name: 'kfd-objects',
  seeds: [
    stateBytes({
      devices: 1,
      ids: [[7, 70]],
      bos: [{ flags: 1, size: 4096 }],
      vmas: 1,
      queues: [{ ...queue, id: 0, type: 0, saveArea: 0x7f00_0000_0000, stack: [12, 4096] }],
      events: [{ autoReset: true, isSet: false }],
      ranges: [{ first: 0x7f0000000, pages: 16 }],
    }),
    stateBytes({ devices: 2, bos: [], vmas: 0, queues: [], events: [], ranges: [{ pages: 1 }] }),
  ],
  tokens: ['KFDSTATE', '\0\0\0\0', '\xff\xff\xff\xff', '\x01\0\0\0', '\x02\0\0\0', '\0\x08\0\0'],
  run(input) {
    const found = kfdObjectsOf(input);
    if (found === undefined) return;
    const count = found.queues.length + found.events.count + found.svmRanges.count;
    assert.equal(count, input.readUInt32LE(48), 'every object is known');
    for (const { saved } of found.queues) assert.ok(saved.mqdBytes <= input.length);
  },
};

const id = '0'.repeat(32);
const migrationStream = Buffer.concat([
  greeting,
  encodeMessage({
    type: 'begin',
    id,
    lease_ms: 1000,
    container: 'job',
    container_id: id + id,
    room_bytes: 1,
  }),
  frameHeader('content', 5),
  Buffer.from('bytes'),
  encodeMessage({ type: 'failed', id, failure: { code: 'E_IO', message: 'no', hint: 'yes' } }),
]);

const migration: Parser = {
  name: 'migration-stream',
  seeds: [
    migrationStream,
    Buffer.concat([greeting, controlFrame(Buffer.from('{"type":"grant"}'))]),
  ],
  tokens: ['\0\0\0\x01', '\x01\0\0\0', '\x02\0\0\0', '\0\x10\0\0', '\n', '"id":', '{', '}', ','],
  run(input) {
    const read = (pieces: readonly Buffer[]) => {
      const found: string[] = [];
      let contents = '';
      const reader = new MigrationReader({
        control: (payload) => {
          found.push(`${contents}|${payload.toString('hex')}`);
          const message = unlessRefused(['E_PROTOCOL'], () => decodeMessage(payload));
          if (message === undefined) return;
          assert.deepEqual(decodeMessage(encodeMessage(message).subarray(8)), message);
        },
        content: (length) => found.push(`content ${length}`),
        bytes: (part) => {
          contents += part.toString('hex');
        },
      });
      const whole = unlessRefused(['E_PROTOCOL'], () => {
        for (const piece of pieces) reader.push(piece);
        return true;
      });
      return { whole, found, contents };
    };
    const at = Math.floor(input.length / 2);
    const once = read([input]);
    assert.deepEqual(read([input.subarray(0, at), input.subarray(at)]), once);
    if (input.length < 300) assert.deepEqual(read([...input].map((byte) => Buffer.of(byte))), once);
  },
};

const mounts: Parser = {
  name: 'criu-mounts',
  seeds: [mountsImage(undefined, '/run/crun/.empty-directory'), mountsImage('/proc/kcore')],
  tokens: ['\x92\x01', '\0\0\0\0', '\xff\xff\xff\xff'],
  run(input) {
    const names = externalMounts(input);
    assert.ok(names.reduce((sum, name) => sum + name.length, 0) <= input.length);
  },
};

export const binaryParsers: readonly Parser[] = [
  mounts,
  migration,
  frames,
  messages,
  answers,
  cgroups,
  buffers,
  states,
];
