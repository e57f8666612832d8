/** Our errors as answers of ttrpc. containerd's clients show the message to users and the code to programs. */

import type { KfdError } from '../../src/errors.js';
import { statusOf } from '../../src/rpc-status.js';
import type { Response } from '../../src/ttrpc/envelope.js';

export function responseFor({ code, message, hint }: KfdError): Response {
  const whole = `kfd-checkpoint: ${code}: ${message}${hint === undefined ? '' : ` (${hint})`}`;
  return { code: statusOf[code], message: whole, payload: Buffer.alloc(0) };
}
