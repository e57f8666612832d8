/** proto/control.proto, for server and client. */

import { fileURLToPath } from 'node:url';
import { loadSync, type ServiceDefinition } from '@grpc/proto-loader';

const folder = fileURLToPath(new URL('../../../../../proto', import.meta.url));

const definitions = loadSync('control.proto', {
  includeDirs: [folder],
  keepCase: true,
  // Bytes and microseconds: exact up to 8 PiB.
  longs: Number,
  enums: String,
  defaults: true,
});

export const controlService = definitions[
  'kfdcheckpoint.control.v1.Control'
] as unknown as ServiceDefinition;

/** The trailer with the error code. */
export const codeKey = 'kfd-checkpoint-code';
