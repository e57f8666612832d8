/** Between a call that is not simply passed on and whoever knows what to do about it. */

import type { Request, Response } from '../transport/envelope.js';

/** The stock shim, as one intercepted call sees it. */
export interface Child {
  /** Passes the call on, with another payload if given. Its answer; "unavailable" when there will be none. */
  forward(payload?: Buffer): Promise<Response>;
  /**
   * As forward, for a call that must not stop anywhere: the stock shim drops what it was asked on a connection that ends, so that
   * the one to it stays until its answer, also when the caller's ends. `onCallerGone` hears of that.
   */
  forwardToEnd(onCallerGone: () => void): Promise<Response>;
  /** Makes another call of the same service. Rejects with E_TIMEOUT, E_PROTOCOL. */
  ask(method: string, payload: Buffer): Promise<Response>;
}

/**
 * Answers a call in the stock shim's place. Undefined: it is to be passed on as it came; so it is when this throws, before it
 * has made use of the child.
 */
export type Intercept = (call: Request, child: Child) => Promise<Response> | undefined;
