/** gRPC on demand: a session that nobody looks at does without it, for CRIU waits for its start. */

import { fileURLToPath } from 'node:url';

type GrpcPart = typeof import('./grpc/main.js');

let loading: Promise<GrpcPart> | undefined;

/** Throws what Node.js throws when an installation lacks it. */
export function loadGrpcPart(): Promise<GrpcPart> {
  const path = fileURLToPath(new URL('./grpc/main.js', import.meta.url));
  // By a name that the bundler cannot know: it is another program there.
  loading ??= import(path) as Promise<GrpcPart>;
  return loading;
}
