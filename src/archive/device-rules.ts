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
import { type CdiNames, cdiMember, nameList } from './cdi-names.js';

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

/** What changes in the documents. */
export interface DocumentChanges {
  readonly moves: readonly DeviceMove[];
  /** Numbers of nodes that the container loses. */
  readonly gone: readonly DeviceNumber[];
  /** New values of existing annotations. */
  readonly annotations: Readonly<Record<string, string>>;
  /** CDI names in them follow. */
  readonly cdi: CdiNames;
}

/** spec.dump. Throws E_IMAGE_CORRUPT. */
export function rewriteSpec(text: string, changes: DocumentChanges): string {
  return guarded('spec.dump', () => specText(text, [], changes));
}

/** config.dump. Throws E_IMAGE_CORRUPT. */
export function rewriteConfig(text: string, changes: DocumentChanges): string {
  const { moves, gone, cdi } = changes;
  const isGonePath = ({ path }: Device) =>
    gone.some(({ minor }) => path === nodePath({ node: 'card' }, minor));
  return guarded('config.dump', () => {
    const changed = withChanged(
      specText(text, ['spec'], changes),
      ['device_host_src'],
      // Paths of the host. Podman looks up their numbers at every start.
      (list) =>
        changedDevices(list, (device) =>
          isGonePath(device) ? undefined : withPath(device, moveOfPath(device, moves)),
        ),
    );
    return withChanged(changed, [cdiMember], (list) => cdi.followed(v.parse(nameList, list)));
  });
}

function specText(
  text: string,
  top: readonly string[],
  { moves, gone, annotations, cdi }: DocumentChanges,
): string {
  const isGone = (device: Device) =>
    isCharacter(device) &&
    gone.some(({ major, minor }) => device.major === major && device.minor === minor);
  let changed = withChanged(text, [...top, 'linux', 'devices'], (list) =>
    changedDevices(list, (device) => {
      if (isGone(device)) return undefined;
      const move = moveOfNumber(device, moves);
      return withPath(move === undefined ? device : { ...device, ...move.to }, move);
    }),
  );
  changed = withChanged(changed, [...top, 'linux', 'resources', 'devices'], (list) =>
    changedDevices(list, (rule) => {
      if (isGone(rule)) return undefined;
      const to = moveOfNumber(rule, moves)?.to ?? moveOfMajor(rule, moves);
      return to === undefined ? rule : { ...rule, ...to };
    }),
  );
  return withChanged(changed, [...top, 'annotations'], (value) => {
    const known = v.parse(v.nullable(v.record(v.string(), v.string())), value);
    if (known === null) return known;
    const present = Object.entries(annotations).filter(([key]) => Object.hasOwn(known, key));
    return cdi.followedAnnotations({ ...known, ...Object.fromEntries(present) });
  });
}

/** Elements for which `change` has no answer are left out. */
function changedDevices(list: unknown, change: (device: Device) => Device | undefined): unknown {
  // Validated, but the input is used: the validated object has its members in another order.
  v.parse(deviceList, list);
  return (list as Device[] | null)?.flatMap((one) => change(one) ?? []) ?? list;
}

/** The types of a character device: "c", or "u" (unbuffered), which Linux treats as "c". */
function isCharacter({ type }: Device): boolean {
  return type === 'c' || type === 'u';
}

function moveOfNumber(device: Device, moves: readonly DeviceMove[]) {
  const { major, minor } = device;
  if (!isCharacter(device)) return undefined;
  return moves.find(({ from }) => from.major === major && from.minor === minor);
}

/** A rule for all devices of a major changes only when all of them move to one major. */
function moveOfMajor(
  device: Device,
  moves: readonly DeviceMove[],
): Pick<DeviceNumber, 'major'> | undefined {
  const { major, minor } = device;
  const isAny = minor === undefined || minor === null || minor === -1;
  if (!isCharacter(device) || !isAny) return undefined;
  const majors = new Set(
    moves.filter(({ from }) => from.major === major).map(({ to }) => to.major),
  );
  const [only] = majors;
  return majors.size === 1 && only !== undefined ? { major: only } : undefined;
}

function moveOfPath({ path }: Device, moves: readonly DeviceMove[]): DeviceMove | undefined {
  return moves.find((move) => path !== undefined && path === nodePath(move, move.from.minor));
}

/** A node that is named after its number is renamed with it. */
function withPath(device: Device, move: DeviceMove | undefined): Device {
  if (move === undefined || device.path !== nodePath(move, move.from.minor)) return device;
  const path = nodePath(move, move.to.minor);
  return path === undefined ? device : { ...device, path };
}

/** undefined for /dev/kfd, whose name has no number. */
function nodePath({ node }: Pick<DeviceMove, 'node'>, minor: number): string | undefined {
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
