/** The failure of a verb of ours that has run as another program, with --format json: its last line. */

import * as v from 'valibot';
import { type ErrorCode, exitCodes, KfdError } from '../errors.js';

const codes = Object.keys(exitCodes) as [ErrorCode, ...ErrorCode[]];
const schema = v.object({
  error: v.object({
    code: v.picklist(codes),
    message: v.string(),
    hint: v.exactOptional(v.string()),
  }),
});

/**
 * `lines`: what it has printed last. Where the last one is no failure, it becomes the reason, with `subject`. Where
 * podman has failed, the line before has podman's own words.
 */
export function failureIn(lines: readonly string[], subject: string): KfdError {
  const last = lines.at(-1) ?? '';
  try {
    const { code, message, hint } = v.parse(schema, JSON.parse(last)).error;
    const words = lines.at(-2)?.replace(/^Error: /, '');
    const reason = message.includes('podman: ended with') && words ? words : message;
    return new KfdError(code, `${subject}: ${reason}`, hint === undefined ? {} : { hint });
  } catch {
    const reason = last === '' ? 'ended without a reason' : last.replace(/^Error: /, '');
    return new KfdError('E_IO', `${subject}: ${reason}`);
  }
}
