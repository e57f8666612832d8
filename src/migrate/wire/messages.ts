/** The control messages of a migration. Within a version of the protocol members are only added. */

import { isUtf8 } from 'node:buffer';
import * as v from 'valibot';
import { type ErrorCode, exitCodes, KfdError } from '../../errors.js';
import { controlFrame } from './frame.js';

const text = (max: number) => v.pipe(v.string(), v.maxLength(max));
const codes = Object.keys(exitCodes) as [ErrorCode, ...ErrorCode[]];

/** An error of the other side. */
const failure = v.object({
  code: v.picklist(codes),
  message: text(4096),
  hint: v.exactOptional(text(4096)),
});

/** Of one migration; a repeated migration has another one. */
const id = v.pipe(v.string(), v.regex(/^[0-9a-f]{32}$/, 'not the id of a migration'));
const milliseconds = v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(86_400_000));

const bytes = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(Number.MAX_SAFE_INTEGER));
const path = v.pipe(text(4095), v.regex(/^\/[^\0]*$/, 'not an absolute path'));

/** Words without anything else. */
const word = <Name extends string>(type: Name) => v.object({ type: v.literal(type), id });

const schema = v.variant('type', [
  /** Source to target: what shall come. `question` and `facts` are documents of src/migrate/question. */
  v.object({ type: v.literal('question'), question: v.unknown() }),
  v.object({ type: v.literal('facts'), facts: v.unknown() }),
  /** A migration begins. The lease will last so long. `store`: the folder there for what arrives. Missing: memory. */
  v.object({
    type: v.literal('begin'),
    id,
    lease_ms: milliseconds,
    container: text(255),
    container_id: v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/, 'not the id of a container')),
    store: v.exactOptional(path),
    /** Missing: podman. `container` is the id in this namespace then. */
    engine: v.exactOptional(v.literal('containerd')),
    namespace: v.exactOptional(v.pipe(text(76), v.regex(/^[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*$/))),
    /** At most so much arrives. */
    room_bytes: v.pipe(bytes, v.minValue(1)),
    gpu_map: v.exactOptional(text(4096)),
    ignore_mismatch: v.exactOptional(text(256)),
  }),
  /** The target has a place for the contents. */
  word('begun'),
  /** The connection for contents begins, and will carry so many bytes. */
  v.object({ type: v.literal('coming'), id, bytes }),
  /** Everything was sent over the connection for contents: so many bytes. */
  v.object({ type: v.literal('rest'), id, bytes }),
  /** The words of src/migrate/protocol. */
  word('grant'),
  word('yours'),
  word('done'),
  v.object({ type: v.literal('revoke'), id, failure }),
  word('query'),
  word('ready'),
  word('resumed'),
  word('taken'),
  /** Without `id`: the question cannot be answered. */
  v.object({ type: v.literal('failed'), id: v.exactOptional(id), failure }),
]);

export type Message = v.InferOutput<typeof schema>;

/** Throws E_PROTOCOL when it is over the limit of a frame. */
export function encodeMessage(message: Message): Buffer {
  return controlFrame(Buffer.from(JSON.stringify(message)));
}

/** The message in a control frame. Throws E_PROTOCOL. */
export function decodeMessage(payload: Buffer): Message {
  return decodeDocument(payload, schema, 'migration: a message');
}

/** JSON in UTF-8 that fits `expected`. Throws E_PROTOCOL, whose text begins with `subject`. */
export function decodeDocument<Schema extends v.GenericSchema>(
  payload: Buffer,
  expected: Schema,
  subject: string,
): v.InferOutput<Schema> {
  let value: unknown;
  try {
    if (!isUtf8(payload)) throw new SyntaxError('not UTF-8');
    value = JSON.parse(payload.toString('utf8'));
  } catch (cause) {
    throw new KfdError('E_PROTOCOL', `${subject} is no JSON`, { cause });
  }
  return fitting(value, expected, subject);
}

/** The same for a value that is a part of a message. */
export function fitting<Schema extends v.GenericSchema>(
  value: unknown,
  expected: Schema,
  subject: string,
): v.InferOutput<Schema> {
  const result = v.safeParse(expected, value);
  if (result.success) return result.output;
  const [issue] = result.issues;
  const where = v.getDotPath(issue) ?? 'the whole';
  throw new KfdError('E_PROTOCOL', `${subject} is not understood: ${where}: ${issue.message}`, {
    hint: 'install the same release of kfd-checkpoint on both hosts',
  });
}

/** An error for the other side. */
export function failureOf({ code, message, hint }: KfdError): v.InferOutput<typeof failure> {
  const cut = (one: string) => one.slice(0, 4096);
  return { code, message: cut(message), ...(hint !== undefined && { hint: cut(hint) }) };
}

/** An error of the other side, which `name` names. */
export function errorOf(
  { code, message, hint }: v.InferOutput<typeof failure>,
  name: string,
): KfdError {
  return new KfdError(code, `${name}: ${message}`, hint === undefined ? {} : { hint });
}
