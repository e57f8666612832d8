/** Pids of those who take part in an operation. */

import { readdirSync, readFileSync } from 'node:fs';

export const victims = [
  'session',
  'criu',
  'runtime',
  'engine',
  'conmon',
  'launcher',
  'script',
  'task',
  'cli',
  'proxy',
  'stock',
  'daemon',
  'source',
  'target',
  'guard',
  'ssh',
  'contents',
] as const;
export type Victim = (typeof victims)[number];

/** Who plays a migration, and its two connections. */
export const migrants = [
  'source',
  'target',
  'guard',
  'ssh',
  'contents',
] as const satisfies readonly Victim[];

interface Process {
  readonly pid: number;
  readonly parent: number;
  readonly name: string;
  readonly command: string;
  /** Pids in the namespaces, that of the host first. */
  readonly pids: readonly number[];
}

function textOf(pid: string, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return ''; // it has just ended
  }
}

function processes(): Process[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      const status = textOf(pid, 'status');
      const field = (name: string) => new RegExp(`^${name}:\\s*(.*)$`, 'm').exec(status)?.[1] ?? '';
      if (status === '' || field('State').startsWith('Z')) return [];
      return [
        {
          pid: Number(pid),
          parent: Number(field('PPid')),
          name: field('Name'),
          command: textOf(pid, 'cmdline').replaceAll('\0', ' '),
          pids: field('NSpid').split(/\s+/).map(Number),
        },
      ];
    });
}

/**
 * The next CRIU has the name of the loader that starts it (test/lab/next-criu). CRIU changes its own part of the
 * command line to "criu: dump --rpc ..." (criu/cr-service.c).
 */
function isCriu({ name, command }: Process): boolean {
  return name === 'criu' || /^\S+\/ld-linux\S+ --library-path \S+ (\S*\/)?criu[ :]/.test(command);
}

/** Finds who plays `victim` now. `started`: what was started for the operation. */
export function find(victim: Victim, started: number): number | undefined {
  const all = processes();
  const one = (test: (process: Process) => boolean) => all.find(test)?.pid;
  const parentOf = (pid: number | undefined) => all.find((process) => process.pid === pid)?.parent;
  const criu = one((process) => isCriu(process) && process.pids.length === 1);
  const launcher = one(({ command }) => /^\S*kfd-checkpoint-launch /.test(command));
  switch (victim) {
    case 'session':
      return one(({ command }) => /^node .*dist\/src\/session\/main\.js /.test(command));
    case 'criu':
      return criu;
    case 'runtime':
      return one(({ name, command }) => isRuntime(name) && / (checkpoint|restore) /.test(command));
    case 'engine':
      return one(
        ({ name, command }) => name === 'podman' && /container (checkpoint|restore)/.test(command),
      );
    case 'conmon': {
      const runtime = find('runtime', started);
      const above = all.find(({ pid }) => pid === parentOf(runtime));
      return above?.name === 'conmon' ? above.pid : one(({ name }) => name === 'conmon');
    }
    case 'launcher':
      return launcher;
    case 'script':
      return parentOf(launcher);
    case 'task':
      return one((process) => inContainer(process) && process.pids[1] === 1);
    case 'cli':
    case 'source':
      return started;
    case 'target':
      return one(({ command }) => /\/cli\/main\.js migrate-target/.test(command));
    case 'guard':
      return one(({ command }) => /\/cli\/main\.js migrate-guard/.test(command));
    case 'ssh':
      return one(({ command }) => /relay\.js .* migrate-target/.test(command));
    case 'contents':
      return one(({ command }) => /relay\.js .* migrate-contents/.test(command));
    case 'proxy':
      return one(({ command }) => command.includes('dist/shim/main.js'));
    case 'stock':
      return one(({ command }) => /containerd-shim-runc-v2 /.test(command));
    case 'daemon':
      return one(({ name }) => name === 'containerd');
  }
}

function isRuntime(name: string): boolean {
  return name === 'crun' || name === 'runc';
}

/** Who is there, and where each sleeps: for an operation that hangs. */
export function presence(started: number): string {
  const seen = victims.flatMap((victim) => {
    const pid = find(victim, started);
    if (pid === undefined) return [];
    return [`${victim} ${pid} in ${textOf(String(pid), 'wchan')}`];
  });
  return seen.join(', ');
}

const inContainer = ({ pids }: Process) => pids.length === 2;

/** Processes of containers, after the end of those that are known. */
export function tasks(): string[] {
  return processes().filter(inContainer).map(described);
}

function described({ pid, name, command }: Process): string {
  return `${pid} ${name} ${command}`.slice(0, 120);
}

/** Command lines of processes that belong to an operation, and are to end with it. */
export function workers(): string[] {
  const ours =
    /dist\/src\/session|kfd-checkpoint-launch |criu-action|dist\/shim\/task\/|(crun|runc) .*(checkpoint|restore) /;
  return processes()
    .filter((process) => {
      const { name, command, pids } = process;
      return isCriu(process) || (pids.length === 1 && name !== 'conmon' && ours.test(command));
    })
    .map(described);
}
