/** An answer that CRIU waits for. */

import { KfdError } from '../../errors.js';
import type { Answer } from './serve-messages.js';

export class PendingAnswer {
  #waiting: { give: (answer: Answer) => void; refuse: (error: KfdError) => void } | undefined;

  /**
   * Calls `begin`, and waits for give() or refuse(). CRIU asks one thing at a time: rejects with E_PROTOCOL
   * otherwise.
   */
  async ask(begin: () => void): Promise<Answer> {
    if (this.#waiting !== undefined) {
      throw new KfdError('E_PROTOCOL', 'session: asked before the last answer was given');
    }
    const answer = new Promise<Answer>((give, refuse) => {
      this.#waiting = { give, refuse };
    });
    begin();
    return answer;
  }

  give(answer: Answer): void {
    this.#waiting?.give(answer);
    this.#waiting = undefined;
  }

  refuse(error: KfdError): void {
    this.#waiting?.refuse(error);
    this.#waiting = undefined;
  }

  /** Nobody waits for the answer any more. */
  drop(): void {
    this.#waiting = undefined;
  }
}
