/**
 * The answer of a shim to `start`. It has three forms: the address alone (containerd 1.6, 1.7), JSON
 * (2.0 to 2.2), and a protobuf message BootstrapResult (2.3 and later). The form stays as it is,
 * because the stock shim has chosen it for its daemon.
 */

import { KfdError } from '../../src/errors.js';
import { bytesField, fieldsOf } from '../../src/protobuf.js';
import { findMember, withMember } from '../../src/runtime/json-text.js';

const scheme = 'unix://';
/** Field numbers of BootstrapResult. */
const resultField = { address: 2, protocol: 3 } as const;

export interface Answer {
  /** Absolute path of the socket at which the stock shim listens. */
  readonly socket: string;
  /** The same answer with another socket. All other bytes are kept. */
  withSocket(path: string): Buffer;
}

/** Throws E_PROTOCOL when the bytes are no answer, or name anything but ttrpc on a socket with a path. */
export function parseAnswer(bytes: Buffer): Answer {
  if (bytes.length === 0) throw new KfdError('E_PROTOCOL', 'the stock shim answered nothing');
  const { address, protocol, replace } = read(bytes);
  if (protocol !== 'ttrpc' || !address.startsWith(`${scheme}/`)) {
    throw new KfdError(
      'E_PROTOCOL',
      `the stock shim listens at ${JSON.stringify(address)} with ${JSON.stringify(protocol)}: ` +
        `only ttrpc at ${scheme}/PATH is supported`,
    );
  }
  return {
    socket: address.slice(scheme.length),
    withSocket: (path) => replace(`${scheme}${path}`),
  };
}

interface Read {
  readonly address: string;
  readonly protocol: string;
  readonly replace: (address: string) => Buffer;
}

function read(bytes: Buffer): Read {
  const text = bytes.toString('latin1');
  if (text.startsWith(scheme)) {
    const address = text.trimEnd();
    const rest = text.slice(address.length);
    return { address, protocol: 'ttrpc', replace: (other) => Buffer.from(other + rest, 'latin1') };
  }
  return text.startsWith('{') ? readJson(text) : readResult(bytes);
}

function readJson(text: string): Read {
  try {
    // A member that is there twice is refused: readers would take different ones.
    for (const member of ['address', 'protocol']) findMember(text, member);
  } catch (error) {
    const { message } = error as SyntaxError;
    throw new KfdError('E_PROTOCOL', `the stock shim's answer: ${message}`, { cause: error });
  }
  const { address, protocol } = JSON.parse(text) as { address?: unknown; protocol?: unknown };
  return {
    address: String(address),
    protocol: String(protocol),
    replace: (other) => Buffer.from(withMember(text, 'address', other), 'latin1'),
  };
}

function readResult(bytes: Buffer): Read {
  const last = (wanted: number) => {
    const values = [...fieldsOf(bytes)].filter(({ number }) => number === wanted);
    const value = values.at(-1)?.value;
    return Buffer.isBuffer(value) ? value.toString() : '';
  };
  return {
    address: last(resultField.address),
    protocol: last(resultField.protocol),
    replace: (other) =>
      Buffer.concat(
        [...fieldsOf(bytes)].map(({ number, raw }) =>
          number === resultField.address ? bytesField(number, other) : raw,
        ),
      ),
  };
}
