/** Numbers of device nodes as stat(2) has them. */

/** `st_rdev` of a device node, as glibc packs it (sys/sysmacros.h, gnu_dev_makedev): exact for majors below 4096. */
export function deviceId({ major, minor }: { major: number; minor: number }): number {
  return (minor & 0xff) + major * 0x100 + Math.floor(minor / 0x100) * 0x100000;
}
