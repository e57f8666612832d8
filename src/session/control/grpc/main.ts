/**
 * The gRPC part, loaded when a session has a client or the command line looks for one. It is a separate program in an
 * installation.
 */

export { callFailure, GrpcClient } from './client.js';
export { ControlService } from './service.js';
