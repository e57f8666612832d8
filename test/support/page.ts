/** The runs in test/support/runs.json, as rows of README.md and as docs/support.md. */

import { type Counts, type Run, totalOf } from './runs.js';

export const command = 'npm run support -- build/test-logs/end-to-end*.out';

const release = ({ releases }: Run, name: string) => releases[name] ?? '-';

function counted({ passed, failed, skipped }: Counts): string {
  const others = [
    ...(failed > 0 ? [`**${failed} failed**`] : []),
    ...(skipped > 0 ? [`${skipped} skipped`] : []),
  ];
  return [`${passed} passed`, ...others].join(', ');
}

function rows(head: readonly string[], body: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |\n`;
  return [line(head), `|${'---|'.repeat(head.length)}\n`, ...body.map(line)].join('');
}

const columns = ['podman', 'crun', 'runc', 'containerd', 'criu'] as const;

function runsTable(runs: readonly Run[]): string {
  const head = ['', 'kernel, driver', ...columns, 'cgroups by', 'cases'];
  const body = runs.map((run, index) => [
    String(index + 1),
    `${release(run, 'kernel')}, ${release(run, 'driver')}`,
    ...columns.map((name) => release(run, name)),
    release(run, 'cgroups'),
    counted(totalOf(run)),
  ]);
  return rows(head, body);
}

const label = '| tried together |';

/** A row of README.md. */
function triedTogether(run: Run): string {
  const { failed } = totalOf(run);
  const names = columns.map((name) => `${name === 'criu' ? 'CRIU' : name} ${release(run, name)}`);
  const failures = failed === 0 ? '' : `; ${failed} cases failed`;
  return `${label} ${names.join(', ')}; Linux ${release(run, 'kernel')}${failures} |`;
}

/**
 * `readme` with a row for each set of programs, after that of CRIU, in place of all such rows. Throws when there is no
 * row of CRIU.
 */
export function readmeWith(readme: string, runs: readonly Run[]): string {
  const lines = readme.split('\n').filter((line) => !line.startsWith(label));
  const at = lines.findIndex((line) => line.startsWith('| CRIU |'));
  if (at < 0) throw new Error('README.md: no row of CRIU');
  return lines.toSpliced(at + 1, 0, ...new Set(runs.map(triedTogether))).join('\n');
}

/** docs/support.md. */
export function supportPage(runs: readonly Run[]): string {
  const parts = [...new Set(runs.flatMap((run) => Object.keys(run.parts)))].toSorted();
  const systems = runs.map((run, index) => [
    String(index + 1),
    release(run, 'system'),
    Object.values(run.parts)
      .map(({ day }) => day)
      .toSorted()
      .at(-1) ?? '-',
  ]);
  const body = parts.map((part) => [
    `\`${part}\``,
    ...runs.map(({ parts: all }) => (all[part] === undefined ? '-' : counted(all[part]))),
  ]);
  return `# Support

This page is for operators who want to know which releases of other programs were tried together. It is made from
\`test/support/runs.json\`, which the end-to-end tests fill:

\`\`\`
${command}
\`\`\`

All GPUs were simulated. Each row is one set of releases. Other releases may work, and nobody has tried them.

${runsTable(runs)}
## Cases of each part

Parts are files of \`test/e2e\`. A scenario has a case for each runtime. "-": the part did not run.

${rows(['part', ...runs.map((_, index) => String(index + 1))], body)}
## Systems

${rows(['', 'system', 'last run'], systems)}`;
}
