/** The interface between the proxy and the code that intercepts calls. */

import type { Request, Response } from '../transport/envelope.js';

/** The stock shim, for one intercepted call. */
export interface Upstream {
  /**
   * Forwards the call, with another payload if one is given. Resolves with the answer, or with
   * "unavailable" when there will be none.
   */
  forward(payload?: Buffer): Promise<Response>;
  /**
   * As forward, for a call that must not be cut off. The stock shim cancels the calls of a connection
   * that ends, so its connection stays until the answer, even after the caller's connection has
   * ended. `onCallerGone` is called when the caller's connection ends.
   */
  forwardToEnd(onCallerGone: () => void): Promise<Response>;
  /** Makes another call of the same service. Rejects with E_TIMEOUT, E_PROTOCOL. */
  ask(method: string, payload: Buffer): Promise<Response>;
}

/**
 * Answers a call instead of the stock shim. Undefined: the call is forwarded unchanged. The same
 * happens when this throws, which it may only do before it uses `upstream`.
 */
export type Intercept = (call: Request, upstream: Upstream) => Promise<Response> | undefined;
