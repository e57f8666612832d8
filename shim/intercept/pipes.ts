/** The pipes that a caller gives a container for its output. */

import { closeSync, constants, fstatSync, openSync } from 'node:fs';

/**
 * Opens those of `paths` that are FIFOs, as their reader, without reading. Returns a function that closes them.
 *
 * The stock shim opens them for writing when CRIU has restored the tasks, and waits for a reader (`pkg/process/io.go:
 * copyPipes@1.6.20`). A caller that was killed is none. Then Start would never be answered, and nobody could end the
 * container: the stock shim holds its lock.
 */
export function keepReaders(paths: readonly string[]): () => void {
  const open = paths.flatMap((path) => {
    try {
      const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
      if (fstatSync(fd).isFIFO()) return [fd];
      closeSync(fd);
    } catch {
      // It is a URI, or has gone: the stock shim reports it.
    }
    return [];
  });
  return () => {
    for (const fd of open.splice(0)) closeSync(fd);
  };
}
