/** The interface between the proxy and the code that intercepts calls. */

import type { Call, Response } from '../../src/ttrpc/envelope.js';

/** The stock shim, for one intercepted call. */
export interface Upstream {
  /**
   * Forwards the call, with another payload if one is given. Resolves with the answer, or with
   * "unavailable" when there will be none.
   */
  forward(payload?: Buffer): Promise<Response>;
  /**
   * As forward, for a call that must not be cut off. The stock shim cancels a call at its caller's
   * deadline, and the calls of a connection that ends. So the deadline is not passed on, and the
   * connection stays until `finish` has made the final answer of the stock shim's.
   *
   * `onCallerGone` is called at most once: at the deadline, or when the caller's connection ends. `onUnheard`
   * is called instead when the connection ends while `finish` works. A call that has to wait `after` something is not
   * forwarded when its caller goes meanwhile: it is answered as cancelled.
   */
  forwardToEnd(
    onCallerGone: () => void,
    finish: (response: Response) => Promise<Response>,
    more?: { readonly onUnheard?: () => void; readonly after?: Promise<void> | undefined },
  ): Promise<Response>;
  /** Makes another call of the same service. Rejects with E_TIMEOUT, E_PROTOCOL. */
  ask(method: string, payload: Buffer): Promise<Response>;
}

/**
 * Answers a call instead of the stock shim. Undefined: the call is forwarded unchanged. The same
 * happens when this throws, which it may only do before it uses `upstream`.
 */
export type Intercept = (call: Call, upstream: Upstream) => Promise<Response> | undefined;
