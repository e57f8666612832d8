import { type Host, readHost } from '../../gpu/host.js';
import { native } from '../../native.js';

/** This host, as the manifest of a checkpoint has it. Throws KFD_IO where there is no KFD. */
export async function thisHost(): Promise<Host> {
  const { major, minor } = native().kfdVersion();
  return readHost({ kfdVersion: `${major}.${minor}`, xsaveBytes: native().xsaveBytes() });
}

/**
 * Reads this host for nothing but the code that is compiled by it. KFD is not opened: the driver refuses another
 * partition mode as long as a process lives that has opened it (kfd_device.c:kgd2kfd_check_and_lock_kfd@6.12.118).
 */
export async function rehearseHost(): Promise<void> {
  await readHost({ xsaveBytes: native().xsaveBytes() });
}
