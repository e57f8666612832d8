/**
 * The place of a restored container in the cgroup tree. runc leaves the container in the cgroup of the
 * container that was checkpointed. Its own limits have no effect there. A restarted containerd also
 * takes a shim for a stale one when the cgroup of its container is empty.
 */

/** Folder of a systemd slice. Each dash in its name stands for a parent slice (systemd.slice(5)). */
function sliceFolder(slice: string): string {
  const parts = slice.slice(0, -'.slice'.length).split('-');
  const slices = parts.map((_, index) => `/${parts.slice(0, index + 1).join('-')}.slice`);
  return slice === '-.slice' ? '' : slices.join('');
}

/**
 * The path, below the root of the cgroup tree, that runc gives the container `id` with this
 * `linux.cgroupsPath`. Undefined when the path is not known, or when CRIU's configuration cannot
 * hold it.
 */
export function cgroupRoot(cgroupsPath: unknown, id: string): string | undefined {
  const path = cgroupsPath === undefined || cgroupsPath === '' ? `/${id}` : cgroupsPath;
  if (typeof path !== 'string') return undefined;
  const plain = /^[\w./:@+-]+$/;
  const systemd = /^([^:/]+\.slice):([^:/]*):([^:/]+)$/.exec(path);
  let root = path;
  if (systemd !== null) {
    const [, slice = '', prefix, name = ''] = systemd;
    const unit = prefix === '' ? name : `${prefix}-${name}`;
    root = `${sliceFolder(slice)}/${name.endsWith('.slice') ? name : `${unit}.scope`}`;
  }
  return root.startsWith('/') && plain.test(root) && !/(^|\/)\.\.(\/|$)/.test(root)
    ? root
    : undefined;
}
