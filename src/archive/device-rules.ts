/**
 * The container engine's documents with devices of another host. The OCI runtime applies the rules of the OCI spec
 * (spec.dump). Podman makes later starts of the container from its configuration (config.dump). Only members that name
 * a moved device change.
 */

import * as v from 'valibot';
import { KfdError } from '../errors.js';
import type { DeviceMove } from '../gpu/device-numbers.js';
import type { DeviceNumber } from '../gpu/host.js';
import { withChanged } from '../runtime/json-text.js';

const number = v.optional(v.nullable(v.number()));
/** Other members stay unchanged. */
const deviceList = v.nullable(
  v.array(
    v.looseObject({
      type: v.optional(v.string()),
      major: number,
      minor: number,
      path: v.optional(v.string()),
    }),
  ),
);
type Device = NonNullable<v.InferOutput<typeof deviceList>>[number];

/** spec.dump. `annotations`: new values of existing annotations. Throws E_IMAGE_CORRUPT. */
export function rewriteSpec(
  text: string,
  moves: readonly DeviceMove[],
  annotations: Readonly<Record<string, string>>,
): string {
  return guarded('spec.dump', () => specText(text, [], moves, annotations));
}

/** config.dump. Throws E_IMAGE_CORRUPT. */
export function rewriteConfig(
  text: string,
  moves: readonly DeviceMove[],
  annotations: Readonly<Record<string, string>>,
): string {
  return guarded('config.dump', () =>
    withChanged(
      specText(text, ['spec'], moves, annotations),
      ['device_host_src'],
      // Paths of the host. Podman looks up their numbers at every start.
      (list) => changedDevices(list, (device) => withPath(device, moveOfPath(device, moves))),
    ),
  );
}

function specText(
  text: string,
  top: readonly string[],
  moves: readonly DeviceMove[],
  annotations: Readonly<Record<string, string>>,
): string {
  let changed = withChanged(text, [...top, 'linux', 'devices'], (list) =>
    changedDevices(list, (device) => {
      const move = moveOfNumber(device, moves);
      return withPath(move === undefined ? device : { ...device, ...move.to }, move);
    }),
  );
  changed = withChanged(changed, [...top, 'linux', 'resources', 'devices'], (list) =>
    changedDevices(list, (rule) => {
      const to = moveOfNumber(rule, moves)?.to ?? moveOfMajor(rule, moves);
      return to === undefined ? rule : { ...rule, ...to };
    }),
  );
  return withChanged(changed, [...top, 'annotations'], (value) => {
    const known = v.parse(v.nullable(v.record(v.string(), v.string())), value);
    if (known === null) return known;
    const present = Object.entries(annotations).filter(([key]) => Object.hasOwn(known, key));
    return { ...known, ...Object.fromEntries(present) };
  });
}

function changedDevices(list: unknown, change: (device: Device) => Device): unknown {
  // Validated, but the input is used: the validated object has its members in another order.
  v.parse(deviceList, list);
  return (list as Device[] | null)?.map(change) ?? list;
}

/** The types of a character device: "c", or "u" (unbuffered), which Linux treats as "c". */
function moveOfNumber({ type, major, minor }: Device, moves: readonly DeviceMove[]) {
  if (type !== 'c' && type !== 'u') return undefined;
  return moves.find(({ from }) => from.major === major && from.minor === minor);
}

/** A rule for all devices of a major changes only when all of them move to one major. */
function moveOfMajor(
  { type, major, minor }: Device,
  moves: readonly DeviceMove[],
): Pick<DeviceNumber, 'major'> | undefined {
  const isAny = minor === undefined || minor === null || minor === -1;
  if ((type !== 'c' && type !== 'u') || !isAny) return undefined;
  const majors = new Set(
    moves.filter(({ from }) => from.major === major).map(({ to }) => to.major),
  );
  const [only] = majors;
  return majors.size === 1 && only !== undefined ? { major: only } : undefined;
}

function moveOfPath({ path }: Device, moves: readonly DeviceMove[]): DeviceMove | undefined {
  return moves.find((move) => path !== undefined && path === nodePath(move, move.from));
}

/** A node that is named after its number is renamed with it. */
function withPath(device: Device, move: DeviceMove | undefined): Device {
  if (move === undefined || device.path !== nodePath(move, move.from)) return device;
  const path = nodePath(move, move.to);
  return path === undefined ? device : { ...device, path };
}

/** undefined for /dev/kfd, whose name has no number. */
function nodePath({ node }: DeviceMove, { minor }: DeviceNumber): string | undefined {
  return node === undefined ? undefined : `/dev/dri/${node}${minor}`;
}

function guarded(name: string, change: () => string): string {
  try {
    return change();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new KfdError('E_IMAGE_CORRUPT', `${name}: ${reason}`, { cause: error });
  }
}
