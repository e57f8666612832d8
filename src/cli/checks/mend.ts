/** How to mend a host, by commands of its distribution. */

import { join } from 'node:path';
import { readTextIfAny } from '../../os/files.js';

export type Program = 'criu' | 'libcriu' | 'crun' | 'runc' | 'podman' | 'containerd' | 'node';

export interface Mend {
  /** `needed`: which release, such as "4.0 or later". */
  readonly install: (program: Program, needed: string) => string;
  /** For a damaged package of ours. */
  readonly reinstall: string;
  /** `argument`: of the kernel's command line. */
  readonly bootWith: (argument: string) => string;
}

interface Family {
  readonly install: string;
  readonly libcriu: string;
  /** Files of our packages, as "npm run package" names them. */
  readonly node: string;
  readonly reinstall: string;
  readonly bootWith: (argument: string) => string;
}

const inGrub = (argument: string, update: string): string =>
  `add ${argument} to GRUB_CMDLINE_LINUX in /etc/default/grub, run "${update}" and "reboot"`;

const families: Readonly<Record<'debian' | 'fedora' | 'suse', Family>> = {
  debian: {
    install: 'apt install',
    libcriu: 'libcriu2',
    node: './kfd-checkpoint-node_*.deb',
    reinstall: 'apt install --reinstall ./kfd-checkpoint_*.deb',
    bootWith: (argument) => inGrub(argument, 'update-grub'),
  },
  fedora: {
    install: 'dnf install',
    libcriu: 'criu-libs',
    node: './kfd-checkpoint-node-*.rpm',
    reinstall: 'dnf reinstall ./kfd-checkpoint-[0-9]*.rpm',
    bootWith: (argument) => `run "grubby --update-kernel=ALL --args=${argument}" and "reboot"`,
  },
  suse: {
    install: 'zypper install',
    libcriu: 'libcriu2',
    node: './kfd-checkpoint-node-*.rpm',
    reinstall: 'zypper install --force ./kfd-checkpoint-[0-9]*.rpm',
    bootWith: (argument) => inGrub(argument, 'grub2-mkconfig -o /boot/grub2/grub.cfg'),
  },
};

/** The names of programs in sentences, where they differ from those in code. */
const spoken: Partial<Record<Program, string>> = { libcriu: 'libcriu.so.2', node: 'nodejs' };

/** For the host below `root`. A host of an unknown distribution gets sentences. Never throws. */
export async function mendOf(root: string): Promise<Mend> {
  const text = (await readTextIfAny(join(root, 'etc/os-release')).catch(() => undefined)) ?? '';
  const family = familyOf(text);
  if (family === undefined) return inWords;
  const isOld = valueIn(text, 'ID') === 'debian' && valueIn(text, 'VERSION_ID') === '12';
  return {
    install: (program, needed) =>
      isOld && (program === 'criu' || program === 'crun')
        ? `upgrade to Debian 13: Debian 12 has no such ${program} (${needed})`
        : `run "${family.install} ${packageOf(program, family)}"; ${needed} is needed`,
    reinstall: `run "${family.reinstall}" in the folder of the packages`,
    bootWith: family.bootWith,
  };
}

const inWords: Mend = {
  install: (program, needed) => `install ${spoken[program] ?? program} ${needed}`,
  reinstall: 'run "install.sh" of the unpacked archive again',
  bootWith: (argument) => `boot with ${argument} on the kernel's command line`,
};

function packageOf(program: Program, family: Family): string {
  return program === 'libcriu' || program === 'node' ? family[program] : program;
}

function familyOf(text: string): Family | undefined {
  const names = [valueIn(text, 'ID'), ...valueIn(text, 'ID_LIKE').split(' ')];
  for (const name of names) {
    if (name === 'debian' || name === 'ubuntu') return families.debian;
    if (name === 'fedora' || name === 'rhel') return families.fedora;
    if (name === 'suse' || name === 'opensuse') return families.suse;
  }
  return undefined;
}

/** A value of os-release(5), without its quotes; empty without one. */
function valueIn(text: string, key: string): string {
  const line = new RegExp(`^${key}=(.*)$`, 'm').exec(text)?.[1] ?? '';
  return line.trim().replace(/^(["'])(.*)\1$/, '$2');
}
