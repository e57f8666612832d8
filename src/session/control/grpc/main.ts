/**
 * What is loaded when a session has a client, or the command line a session: a program of its own in an installation.
 */

export { callFailure, GrpcClient } from './client.js';
export { ControlService } from './service.js';
