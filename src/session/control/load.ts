/** gRPC on demand. CRIU waits for the start of a session, and most sessions have no client. */

import { fileURLToPath } from 'node:url';

type GrpcPart = typeof import('./grpc/main.js');

let loading: Promise<GrpcPart> | undefined;

/** Throws what Node.js throws when an installation lacks it. */
export function loadGrpcPart(): Promise<GrpcPart> {
  const path = fileURLToPath(new URL('./grpc/main.js', import.meta.url));
  // The bundler must not follow this name: the module is a separate program there.
  loading ??= import(path) as Promise<GrpcPart>;
  return loading;
}
