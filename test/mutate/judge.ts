/** Runs mutants against the tests of one file. */

import { availableParallelism } from 'node:os';
import type { TestFile } from './coverage.js';
import type { Order, Report } from './messages.js';
import { Worker } from './worker-process.js';

/** How a mutant was noticed. */
export type Verdict = 'failed' | 'late' | 'crashed';

/** How many mutants a worker must have: it has to load the file first. */
const leastForWorker = 4;
/** Milliseconds for a test without a mutant. */
const soundMs = 300_000;

/** Calls `noticed` for each mutant of `alive` that a test of the file notices. One worker for each processor. */
export async function judgeFile(
  file: TestFile,
  alive: ReadonlySet<number>,
  noticed: (id: number, verdict: Verdict) => void,
): Promise<void> {
  const queue = idsOf(file, alive);
  const workers = Math.min(availableParallelism(), Math.ceil(queue.length / leastForWorker));
  await Promise.all(
    Array.from({ length: workers }, () =>
      judgeQueue(file, queue, (id, report) => noticed(id, verdictOf(report))),
    ),
  );
}

async function judgeQueue(
  file: TestFile,
  queue: number[],
  noticed: (id: number, report: Report) => void,
): Promise<void> {
  let worker: Worker | undefined;
  const fresh = async (): Promise<Worker> => {
    worker?.end();
    worker = new Worker(file.path);
    await worker.loaded();
    return worker;
  };
  try {
    for (let id = queue.shift(); id !== undefined; id = queue.shift()) {
      const order = orderFor(file, id);
      let report = await (worker ?? (await fresh())).run(order);
      if (report.kind !== 'passed' && verdictOf(report) === 'late') {
        report = await lateAgain(await fresh(), order, report);
      } else if (report.kind === 'failed') {
        // An earlier mutant may have left something behind that fails every test.
        const again = { ...order, tests: [report.index], mutant: -1 };
        const sound = await (worker as unknown as Worker).run(again);
        if (sound.kind !== 'passed') report = await (await fresh()).run(order);
      }
      if (report.kind === 'passed') continue;
      noticed(id, report);
      if (verdictOf(report) !== 'failed') await fresh();
    }
  } finally {
    worker?.end();
  }
}

/** A test may be late because the machine is busier than before: then it gets more time. */
async function lateAgain(worker: Worker, order: Order, report: Report): Promise<Report> {
  const sound = await worker.run({ ...order, mutant: -1, ms: soundMs });
  if (sound.kind !== 'passed') return report;
  const ms = deadlineFor(Math.max(...sound.facts.map((facts) => facts.ms)));
  return ms > order.ms ? worker.run({ ...order, ms }) : report;
}

/** The same for a mutant that is met while the file loads: it is on from the start of the process. */
export async function judgeLoading(file: TestFile, id: number): Promise<Verdict | undefined> {
  const worker = new Worker(file.path, id);
  try {
    const loaded = await worker.loaded();
    if (loaded.kind !== 'loaded') return verdictOf(loaded);
    const report = await worker.run(orderOf(file.tests, id));
    return report.kind === 'passed' ? undefined : verdictOf(report);
  } finally {
    worker.end();
  }
}

function idsOf({ tests }: TestFile, alive: ReadonlySet<number>): number[] {
  const met = new Set(tests.flatMap(({ hits }) => hits));
  return [...met].filter((id) => alive.has(id)).sort((a, b) => a - b);
}

function orderFor({ tests }: TestFile, id: number): Order {
  return orderOf(
    tests.filter(({ hits }) => hits.includes(id)),
    id,
  );
}

/** The quickest tests first. */
function orderOf(tests: TestFile['tests'], mutant: number): Order {
  const sorted = [...tests].sort((a, b) => a.ms - b.ms);
  return {
    tests: sorted.map(({ index }) => index),
    mutant,
    maximum: 100_000 + 50 * sorted.reduce((sum, { evaluations }) => sum + evaluations, 0),
    ms: deadlineFor(sorted.at(-1)?.ms ?? 0),
  };
}

/** `ms`: of the slowest test without a mutant. */
function deadlineFor(ms: number): number {
  return 5000 + 4 * ms;
}

function verdictOf(report: Report): Verdict {
  if (report.kind === 'failed') return report.reason === 'Error: late' ? 'late' : 'failed';
  return report.kind === 'crashed' && report.reason === 'late' ? 'late' : 'crashed';
}
