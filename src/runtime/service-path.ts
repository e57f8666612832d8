/** PATH of services (systemd.exec(5)), as folders below the root. containerd looks there for shims, podman for CRIU. */
export const servicePath: readonly string[] = [
  'usr/local/sbin',
  'usr/local/bin',
  'usr/sbin',
  'usr/bin',
  'sbin',
  'bin',
];
