/** Transfers without contents: their jobs end when a test says so. */

import type { TestContext } from 'node:test';
import { native, type TransferJob, type TransferResult } from '../../src/native.js';
import { type StagingSource, stagingRing } from '../../src/session/contents/staging.js';

/** A transfer that ends when it is told to. */
export class FakeJob implements TransferJob {
  bytes = 0;
  cancelled = false;
  readonly done: Promise<TransferResult>;
  end: (result?: object) => void = () => undefined;
  fail: (error: Error) => void = () => undefined;

  constructor() {
    this.done = new Promise((resolve, reject) => {
      this.end = (result = {}) => resolve({ bytes: this.bytes, ...result } as TransferResult);
      this.fail = reject;
    });
  }

  progress(): number {
    return this.bytes;
  }

  cancel(): void {
    this.cancelled = true;
    this.fail(coded('KFD_CANCELLED', 'cancelled'));
  }
}

/** A transfer that a cancel does not end at once. */
export class SlowJob extends FakeJob {
  override cancel(): void {
    this.cancelled = true;
  }
}

/** An error of the addon. */
export function coded(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}

/** Staging memory without an end. */
export const plenty: StagingSource = {
  claim: async () => ({ ring: stagingRing({ staging_mib: 64 }), giveBack: () => undefined }),
};

/** What the addon was asked to transfer. */
export interface Asked {
  readonly operation: string;
  readonly path?: string;
  readonly renderNode: string;
  readonly engine: string;
  readonly hostBytes?: number;
  readonly parent?: string;
  readonly parents?: readonly string[];
  readonly frames?: object;
  readonly buffers: readonly { readonly id: number; readonly size: number }[];
}

/** Until the test ends, each transfer of the addon is the job that `make` gives. */
export function fakeJobs(t: TestContext, make: (asked: Asked) => FakeJob): void {
  const construct = function TransferJob(asked: Asked) {
    return make(asked);
  };
  t.mock.method(native(), 'TransferJob', construct as never);
}
