/**
 * Named points at which a process of the test build can be held. This module does nothing, and bundles have no call of
 * it. The test build has test/faults/stages/hold.ts in its place.
 */
export function stage(_side: string, _point: string): void {
  // a release build goes on
}
