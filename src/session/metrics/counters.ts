/** Counters of sessions, in the text format that Prometheus' node exporter reads from files (textfile collector). */

type Labels = Readonly<Record<string, string>>;

interface Family {
  readonly type: 'counter' | 'gauge';
  readonly help: string;
  /** In the order in which they are written. */
  readonly labels: readonly string[];
}

/** Names end with their unit, and counters with `_total` (prometheus.io, "Metric and label naming"). */
const families = {
  kfd_checkpoint_sessions_total: {
    type: 'counter',
    help: 'Checkpoints and restores of containers with a GPU that have ended.',
    labels: ['operation', 'outcome'],
  },
  kfd_checkpoint_failures_total: {
    type: 'counter',
    help: 'Checkpoints and restores that have failed, by the code of their error.',
    labels: ['operation', 'code'],
  },
  kfd_checkpoint_content_bytes_total: {
    type: 'counter',
    help: 'Bytes of GPU buffers that were saved or restored.',
    labels: ['operation'],
  },
  kfd_checkpoint_phase_seconds_total: {
    type: 'counter',
    help: 'Seconds in each phase of a session. Phases follow each other.',
    labels: ['operation', 'phase'],
  },
  kfd_checkpoint_last_session_timestamp_seconds: {
    type: 'gauge',
    help: 'When the last session ended, in seconds since 1970.',
    labels: ['operation', 'success'],
  },
} as const satisfies Readonly<Record<string, Family>>;

export type FamilyName = keyof typeof families;

/** The longest file that is read, bytes. */
export const maxBytes = 256 << 10;
/** Labels have few values: what has more of them is not ours. */
const maxSamples = 1000;

/** One line with a value. Values of labels are words of ours, so nothing in them needs a backslash. */
const sampleLine = /^(\w+)(\{(?:\w+="\w*",?)*\}) (\d+(?:\.\d+)?(?:e[+-]?\d+)?)$/;

export class Counters {
  readonly #values = new Map<string, number>();

  /** Undefined for a text that this program has not written. */
  static parse(text: string): Counters | undefined {
    const counters = new Counters();
    if (text !== '' && !text.endsWith('\n')) return undefined;
    for (const line of text.split('\n').slice(0, -1)) {
      if (line.startsWith('# ')) continue;
      const [, name = '', labels = '', value] = sampleLine.exec(line) ?? [];
      const number = Number(value);
      if (!Object.hasOwn(families, name) || !Number.isFinite(number)) return undefined;
      counters.#values.set(name + labels, number);
      if (counters.#values.size > maxSamples) return undefined;
    }
    return counters;
  }

  add(name: FamilyName, labels: Labels, value: number): void {
    const key = keyOf(name, labels);
    this.#values.set(key, (this.#values.get(key) ?? 0) + value);
  }

  /** In seconds, without the errors that sums of fractions gather. */
  addMicroseconds(name: FamilyName, labels: Labels, us: number): void {
    const key = keyOf(name, labels);
    const before = Math.round((this.#values.get(key) ?? 0) * 1e6);
    this.#values.set(key, (before + Math.round(us)) / 1e6);
  }

  set(name: FamilyName, labels: Labels, value: number): void {
    this.#values.set(keyOf(name, labels), value);
  }

  /** The file: each family with its lines, in an order that stays. */
  toString(): string {
    const keys = [...this.#values.keys()].sort();
    return Object.entries(families)
      .flatMap(([name, { help, type }]) => {
        const own = keys.filter((key) => key.startsWith(`${name}{`));
        if (own.length === 0) return [];
        const lines = own.map((key) => `${key} ${this.#values.get(key)}`);
        return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...lines];
      })
      .map((line) => `${line}\n`)
      .join('');
  }
}

function keyOf(name: FamilyName, values: Labels): string {
  const labels = families[name].labels.map((label) => {
    const word = values[label] ?? '';
    return `${label}="${word.replace(/\W/g, '_')}"`;
  });
  return `${name}{${labels.join(',')}}`;
}
