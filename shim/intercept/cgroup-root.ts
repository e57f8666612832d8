/**
 * Where in the cgroup tree a restored container belongs. runc leaves it where it was dumped, under the other container's name: its
 * limits do not hold there, and containerd, when it starts anew, takes a shim whose container's cgroup is empty for a left one.
 */

/** Folder of a systemd slice: each dash in its name is a slice around it (systemd.slice(5)). */
function sliceFolder(slice: string): string {
  const words = slice.slice(0, -'.slice'.length).split('-');
  const around = words.map((_, index) => `/${words.slice(0, index + 1).join('-')}.slice`);
  return slice === '-.slice' ? '' : around.join('');
}

/**
 * Path below the root of the cgroup tree that runc gives the container `id` with this `linux.cgroupsPath`. Undefined when it cannot
 * be said, or a word of CRIU's configuration could not hold it.
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
