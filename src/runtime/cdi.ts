/**
 * The host's CDI specifications: names such as `amd.com/gpu=0`, and the device nodes that each one gives a container.
 * Other parts of a specification are not read. Its form is that of
 * https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md (versions 0.3.0 to 1.0.0).
 */

import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import { readTextIfAny } from '../os/files.js';

/** A specification in a later folder replaces devices of an earlier one. */
const folders = ['etc/cdi', 'var/run/cdi'];
/** More than any host has. A folder with more files is not read to its end. */
const limits = { files: 256, fileBytes: 1 << 20, devices: 4096 } as const;

const kind = /^[A-Za-z][A-Za-z0-9_.-]*[A-Za-z0-9]\/[A-Za-z](?:[A-Za-z0-9_-]*[A-Za-z0-9])?$/;
const deviceName = /^[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?$/;
const path = v.pipe(v.string(), v.regex(/^\/[^\0]*$/));
const number = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(0xffff_ffff));

const specification = v.object({
  kind: v.pipe(v.string(), v.maxLength(253), v.regex(kind)),
  devices: v.pipe(
    v.array(
      v.object({
        name: v.pipe(v.string(), v.maxLength(253), v.regex(deviceName)),
        containerEdits: v.object({
          deviceNodes: v.optional(
            v.array(
              v.object({
                path,
                hostPath: v.optional(path),
                major: v.optional(number),
                minor: v.optional(number),
              }),
            ),
            [],
          ),
        }),
      }),
    ),
    v.maxLength(limits.devices),
  ),
});

/** A device node of a CDI device. Without numbers the engine takes those of the node on the host. */
export interface CdiNode {
  /** On the host. */
  readonly path: string;
  readonly major?: number | undefined;
  readonly minor?: number | undefined;
}

export interface CdiDevice {
  /** "amd.com/gpu=0". */
  readonly name: string;
  /** Its specification. */
  readonly file: string;
  readonly nodes: readonly CdiNode[];
}

export interface Cdi {
  readonly devices: ReadonlyMap<string, CdiDevice>;
  /** "FILE: why it is not used". */
  readonly problems: readonly string[];
}

/** Whether `text` is the full name of a CDI device. */
export function isCdiName(text: string): boolean {
  const at = text.indexOf('=');
  return (
    at > 0 &&
    text.length <= 512 &&
    kind.test(text.slice(0, at)) &&
    deviceName.test(text.slice(at + 1))
  );
}

/**
 * Reads the specifications below `root`. An unreadable one is a problem in the answer, as engines use the others. Never
 * throws.
 */
export async function readCdi(root = '/'): Promise<Cdi> {
  const devices = new Map<string, CdiDevice>();
  const problems: string[] = [];
  for (const folder of folders) {
    const found = new Map<string, CdiDevice>();
    /** Two specifications of one folder give the name: engines refuse it. */
    const twice = new Set<string>();
    for (const name of await filesOf(join(root, folder), problems)) {
      const file = `/${folder}/${name}`;
      for (const device of await devicesOf(root, file, problems)) {
        if (found.has(device.name)) twice.add(device.name);
        found.set(device.name, device);
      }
    }
    for (const [name, device] of found) devices.set(name, device);
    for (const name of twice) {
      devices.delete(name);
      problems.push(`/${folder}: two files have ${name}`);
    }
  }
  return { devices, problems };
}

async function filesOf(folder: string, problems: string[]): Promise<string[]> {
  const names = await readdir(folder).catch((): string[] => []);
  const specifications = names.filter((name) => /\.(json|ya?ml)$/.test(name)).sort();
  if (specifications.length > limits.files)
    problems.push(`${folder}: more than ${limits.files} files`);
  return specifications.slice(0, limits.files);
}

/** Throws what the parsers throw. Few hosts have YAML: podman's hook loads its parser only there. */
async function parsed(file: string, text: string): Promise<unknown> {
  if (file.endsWith('.json')) return JSON.parse(text);
  const { parse } = await import('yaml');
  return parse(text, { logLevel: 'error' });
}

async function devicesOf(root: string, file: string, problems: string[]): Promise<CdiDevice[]> {
  try {
    const text = (await readTextIfAny(join(root, file), limits.fileBytes)) ?? '';
    const { kind: prefix, devices } = v.parse(specification, await parsed(file, text));
    return devices.map(({ name, containerEdits }) => ({
      name: `${prefix}=${name}`,
      file,
      nodes: containerEdits.deviceNodes.map(({ path: inside, hostPath, major, minor }) => ({
        path: hostPath ?? inside,
        major,
        minor,
      })),
    }));
  } catch (error) {
    problems.push(`${file}: ${error instanceof Error ? error.message : String(error)}`);
    return [];
  }
}
