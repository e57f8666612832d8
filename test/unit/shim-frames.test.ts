import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  encodeFrame,
  type Frame,
  FrameReader,
  frameType,
  headerBytes,
  maxPayloadBytes,
  payloadOf,
  setStreamId,
} from '../../src/ttrpc/frame.js';

/** What a reader finds, in words. */
function reading(): { reader: FrameReader; found: string[] } {
  const found: string[] = [];
  const reader = new FrameReader({
    frame: (frame: Frame) =>
      found.push(
        `${frame.streamId} ${frame.type} ${frame.flags} ${payloadOf(frame).toString('latin1')}`,
      ),
    oversized: (streamId, type, bytes) => found.push(`${streamId} ${type} oversized ${bytes}`),
  });
  return { reader, found };
}

const stream = Buffer.concat([
  encodeFrame(1, frameType.request, Buffer.from('first')),
  encodeFrame(3, frameType.data, Buffer.alloc(0), 5),
  encodeFrame(0xffffffff, frameType.response, Buffer.from('last')),
]);
const words = ['1 1 0 first', '3 3 5 ', '4294967295 2 0 last'];

test('frames are found wherever the bytes were split', () => {
  for (let first = 0; first <= stream.length; first += 1) {
    for (let second = first; second <= stream.length; second += 1) {
      const { reader, found } = reading();
      reader.push(stream.subarray(0, first));
      reader.push(stream.subarray(first, second));
      reader.push(stream.subarray(second));
      assert.deepEqual(found, words, `split at ${first} and ${second}`);
    }
  }
});

test('frames are found when every byte comes alone', () => {
  const { reader, found } = reading();
  for (const byte of stream) reader.push(Buffer.from([byte]));
  assert.deepEqual(found, words);
});

test('a frame as long as may be is whole, one byte more is skipped, and what follows is read', () => {
  const longest = encodeFrame(5, frameType.request, Buffer.alloc(maxPayloadBytes, 'x'));
  const tooLong = Buffer.alloc(longest.length + 1);
  longest.copy(tooLong);
  tooLong.writeUInt32BE(maxPayloadBytes + 1, 0);
  setStreamId(tooLong, 7);
  const bytes = Buffer.concat([longest, tooLong, stream]);
  for (const size of [bytes.length, 65_536, 4_099]) {
    const { reader, found } = reading();
    for (let at = 0; at < bytes.length; at += size) reader.push(bytes.subarray(at, at + size));
    assert.equal(found.shift()?.length, '5 1 0 '.length + maxPayloadBytes);
    assert.deepEqual(found, [`7 1 oversized ${maxPayloadBytes + 1}`, ...words]);
  }
});

test('an oversized header is known for one wherever it was split', () => {
  const header = Buffer.alloc(headerBytes, 0xff);
  for (let at = 0; at <= headerBytes; at += 1) {
    const { reader, found } = reading();
    reader.push(header.subarray(0, at));
    reader.push(header.subarray(at));
    assert.deepEqual(found, ['4294967295 255 oversized 4294967295']);
  }
  // What follows its payload is read as ever.
  const tooLong = Buffer.alloc(headerBytes + maxPayloadBytes + 1);
  tooLong.writeUInt32BE(maxPayloadBytes + 1, 0);
  for (const at of [1, 9]) {
    const { reader, found } = reading();
    reader.push(tooLong.subarray(0, at));
    reader.push(tooLong.subarray(at));
    reader.push(stream);
    assert.deepEqual(found, [`0 0 oversized ${maxPayloadBytes + 1}`, ...words]);
  }
});

test('no frame over the limit is made', () => {
  assert.throws(() => encodeFrame(1, frameType.request, Buffer.alloc(maxPayloadBytes + 1)), {
    code: 'E_PROTOCOL',
  });
});
