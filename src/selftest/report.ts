/** The report: one document for this run, without anything that identifies the host. */

import { replaceFile } from '../os/files.js';
import { version } from '../version.js';
import type { Facts, GpuFacts, HostFacts } from './facts.js';
import { redacted, redactor } from './redact.js';
import type { StageName, StageResult } from './stage.js';

export interface RunSettings {
  /** MiB of GPU contents that are moved. */
  readonly size_mib: number;
  readonly stages: readonly StageName[];
  /** Ordinals of the GPUs that were used. */
  readonly gpus: readonly number[];
  /** The CPU copied contents as well. */
  readonly cpu_copies: boolean;
}

export interface Report {
  readonly schema_version: 1;
  readonly version: string;
  readonly node: string;
  /** RFC 3339, to the day: more is no one's business. */
  readonly date: string;
  /** Every stage that was asked for has passed, or had nothing to try on this host. */
  readonly passed: boolean;
  readonly us: number;
  readonly settings: RunSettings;
  /** Releases of the programs that took part, by name. */
  readonly programs: Readonly<Record<string, string>>;
  readonly host: HostFacts;
  readonly gpus: readonly GpuFacts[];
  readonly stages: readonly StageResult[];
}

export interface ReportParts {
  readonly settings: RunSettings;
  readonly programs: Readonly<Record<string, string>>;
  readonly facts: Facts;
  readonly stages: readonly StageResult[];
  readonly node: string;
  readonly now: Date;
  /** What is known of this host and must not be in the report. */
  readonly secrets: readonly string[];
}

/** Most characters of one log, from its end, where the reason of a failure is. */
const maxLog = 64 << 10;

export function makeReport({ facts, secrets, now, stages, ...rest }: ReportParts): Report {
  const redact = redactor(secrets);
  return {
    schema_version: 1,
    version,
    node: rest.node,
    date: now.toISOString().slice(0, 10),
    passed: stages.every(({ status }) => status === 'passed' || status === 'skipped'),
    us: stages.reduce((sum, { us }) => sum + us, 0),
    settings: rest.settings,
    programs: rest.programs,
    host: facts.host,
    gpus: facts.gpus,
    // Cut afterwards: half a name would not be known any more.
    stages: redacted(stages, redact).map(shortened),
  };
}

function shortened(stage: StageResult): StageResult {
  const logs = stage.logs.map(({ name, text }) => ({ name, text: text.slice(-maxLog) }));
  return { ...stage, logs };
}

/** Only its owner may read it: a log can have paths and names of programs. Throws Node's error. */
export async function writeReport(path: string, text: string): Promise<void> {
  await replaceFile(path, text, 0o600);
}
