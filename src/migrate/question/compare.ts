/** Whether a target can take a container, before anything stops. All reasons against it at once. Pure. */

import type { Choices, Placement } from '../../gpu/compare.js';
import { placeOnHost } from '../../gpu/compare.js';
import type { Mismatch } from '../../gpu/mismatch.js';
import type { Manifest } from '../../manifest/schema.js';
import { maskReasons } from '../../runtime/crun-masks.js';
import { isOlder, parseVersion } from '../../runtime/versions.js';
import type { Facts, Question, ToolVersions } from './documents.js';
import { hostOfFacts } from './host-facts.js';
import { type Load, roomReasons, roomReasonsHere } from './room.js';

/** The source, and what the container holds at this moment. */
export interface Moving extends Load {
  readonly question: Question;
  readonly release: string;
  readonly tools: ToolVersions;
  /** The OCI runtime of the container. */
  readonly runtime: 'crun' | 'runc';
  /** Whether it has masked folders that not every crun restores. */
  readonly hasCrunMasks: boolean;
  readonly containerId: string;
  /** What in its configuration stands in the way. */
  readonly obstacles: readonly Mismatch[];
  /** What a checkpoint would record now, as far as the GPUs of a target matter. */
  readonly manifest: Manifest;
}

export interface Answer {
  /** Every reason against the migration, the most general first. Empty: it may begin. */
  readonly reasons: readonly Mismatch[];
  /** What may stop it nevertheless. */
  readonly warnings: readonly Mismatch[];
  readonly ignored: readonly Mismatch[];
  readonly placement: Placement;
}

/** Compares by what `check` compares an archive with: the GPUs of the target must do for the container as it is. */
export function compare(moving: Moving, facts: Facts, choices: Choices = {}): Answer {
  const placement = placeOnHost(moving.manifest, hostOfFacts(facts.host), choices);
  return {
    reasons: [
      ...moving.obstacles,
      ...hostFailures(facts),
      ...releases(moving, facts),
      ...toolReasons(moving, facts),
      ...placement.mismatches,
      ...containerReasons(moving, facts),
      ...roomReasons(moving, facts),
      ...roomReasonsHere(moving),
    ],
    warnings: [
      ...placement.risks,
      ...engineWarnings(moving, facts),
      ...unknownWarnings(moving),
      ...aheadWarnings(moving),
    ],
    ignored: placement.ignored,
    placement,
  };
}

function hostFailures({ failures }: Facts): Mismatch[] {
  return failures.map(({ name, message, hint }) => ({
    code: 'E_HOST',
    message: `${name}: ${message}`,
    hint,
  }));
}

/** Both sides of the connection are of one release: the one that writes an image, and the one that reads it. */
function releases({ release }: Moving, facts: Facts): Mismatch[] {
  if (release === facts.release) return [];
  const message = `kfd-checkpoint: ${release} here, ${facts.release} there`;
  return [
    {
      code: 'E_IMAGE_VERSION',
      message,
      hint: 'install the same release of kfd-checkpoint on both',
    },
  ];
}

/** A missing CRIU, podman or crun is a failure of `check` there already. */
function toolReasons({ question, tools, runtime, hasCrunMasks }: Moving, facts: Facts): Mismatch[] {
  const reasons: Mismatch[] = [];
  if (isBehind(facts.tools.criu, tools.criu)) {
    reasons.push({
      code: 'E_HOST',
      message: `criu: ${tools.criu} here wrote what ${facts.tools.criu} there may not read`,
      hint: `install criu ${tools.criu} or later there`,
    });
  }
  if (facts.engine_silent !== undefined) {
    reasons.push({
      code: 'E_HOST',
      message: `${question.engine}: does not answer there: ${facts.engine_silent}`,
      hint: `start it there; see "journalctl --unit ${question.engine}"`,
    });
  }
  if (facts.tools[runtime] === undefined) {
    reasons.push({
      code: 'E_HOST',
      message: `${runtime}: runs the container here, and is not in PATH there`,
      hint: `install ${runtime} there: an archive is restored by the runtime that wrote it`,
    });
  }
  if (hasCrunMasks) reasons.push(...maskReasons(facts.tools.crun, 'there'));
  return reasons;
}

function engineWarnings({ question: { engine }, tools }: Moving, facts: Facts): Mismatch[] {
  if (!isBehind(facts.tools[engine], tools[engine])) return [];
  return [
    {
      code: 'E_HOST',
      message: `${engine}: ${tools[engine]} here is newer than ${facts.tools[engine]} there`,
      hint: `install ${engine} ${tools[engine]} or later there`,
    },
  ];
}

/** By major and minor version. False where one is not known. */
function isBehind(there: string | undefined, here: string | undefined): boolean {
  const [is, was] = [parseVersion(there ?? ''), parseVersion(here ?? '')];
  return is !== undefined && was !== undefined && isOlder(is, `${was.major}.${was.minor}`);
}

function containerReasons({ question }: Moving, facts: Facts): Mismatch[] {
  const { container, engine, image, image_id: id } = question;
  const isPodman = engine === 'podman';
  const reasons: Mismatch[] = [];
  if (facts.name_taken) {
    reasons.push({
      code: 'E_HOST',
      message: `container ${container}: there is one with this name already`,
      hint: isPodman
        ? `remove or rename it there: podman rename ${container} NEW`
        : `remove it there: ctr container rm ${container}`,
    });
  }
  if (facts.engine_silent !== undefined) {
    // Nothing is known of the image.
  } else if (facts.image_id === undefined) {
    reasons.push({
      code: 'E_IMAGE_MISSING',
      message: `image ${image}: not there`,
      hint: `get it there: ${isPodman ? 'podman' : 'ctr image'} pull ${image}`,
    });
  } else if (facts.image_id !== id) {
    reasons.push({
      code: 'E_IMAGE_MISSING',
      message: `image ${image}: another one there: ${short(facts.image_id)}, here ${short(id)}`,
      hint: isPodman
        ? `send this one: podman save ${image} | ssh HOST podman load`
        : `send this one: ctr image export - ${image} | ssh HOST ctr image import -`,
    });
  }
  for (const folder of facts.missing_folders) {
    const message = `mount: ${folder} is not there`;
    const hint = `copy ${folder} to that host: the container has it mounted`;
    reasons.push({ code: 'E_HOST', message, hint });
  }
  return reasons;
}

const short = (id: string) => id.slice(0, 12);

function aheadWarnings({ rounds, sendsMemory }: Moving): Mismatch[] {
  if (rounds === 0 || sendsMemory) return [];
  return [
    {
      code: 'E_HOST',
      message: 'memory: is not sent ahead: the kernel here does not track what has changed',
      hint: 'it is sent while the container stands still; see "kfd-checkpoint check"',
    },
  ];
}

/** What is not known counts as nothing. */
function unknownWarnings({ question, memoryBytes, changedBytes }: Moving): Mismatch[] {
  const { container } = question;
  const warnings: Mismatch[] = [];
  if (memoryBytes === undefined) {
    warnings.push({
      code: 'E_HOST',
      message: `memory: how much container ${container} uses is not known`,
      hint: 'its cgroup does not tell: see "podman stats", and compare by hand',
    });
  }
  if (changedBytes === undefined) {
    warnings.push({
      code: 'E_HOST',
      message: `files: how much container ${container} has changed of its image is not known`,
      hint: 'the engine does not tell, or counting took over 60 s: see that there is room for it',
    });
  }
  return warnings;
}
