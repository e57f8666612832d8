import { type Host, readHost } from '../../gpu/host.js';
import { native } from '../../native.js';

/** This host, as the manifest of a checkpoint has it. Throws KFD_IO where there is no KFD. */
export async function thisHost(): Promise<Host> {
  const { major, minor } = native().kfdVersion();
  return readHost({ kfdVersion: `${major}.${minor}`, xsaveBytes: native().xsaveBytes() });
}
