/** Man pages: what they say is what `--help` says, and their readers find nothing wrong. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { manPages } from '../../src/manual/pages.js';
import { describedProgram } from '../../src/manual/program.js';
import { cli } from './cli-context.js';
import { isMissing } from './installed-program.js';
import { repository, temporaryFolder } from './paths.js';

const edition = { date: '2026-11-25', version: '9.8.7' };
const pages = manPages((path) => readFileSync(join(repository, path), 'utf8'), edition);

/** Names of options in text for people or in roff. */
const optionsIn = (text: string) =>
  [
    ...new Set(
      text
        .replaceAll('\\-', '-')
        .replace(/\\f[BIR]/g, '')
        .match(/(?<![\w-])--?[a-zA-Z][\w-]*/g),
    ),
  ].sort();

/** A section of a page, without its heading. */
function section(page: string, title: string): string {
  const [, rest] = page.split(`\n.SH "${title}"\n`);
  assert.ok(rest !== undefined, `no section ${title}`);
  return rest.split('\n.SH ')[0] ?? '';
}

test('there is a page for the program, each verb, the two formats and the shim', () => {
  const verbs = describedProgram().commands.map((verb) => verb.name());
  assert.ok(verbs.length > 10);
  const expected = [
    'man5/kfd-checkpoint-config.5',
    'man5/kfd-checkpoint-image.5',
    'man8/containerd-shim-kfd-v2.8',
    'man8/kfd-checkpoint.8',
    ...verbs.map((verb) => `man8/kfd-checkpoint-${verb}.8`),
  ];
  assert.deepEqual([...pages.keys()].sort(), expected.sort());
});

test('the page of a verb has every option and argument of --help, its texts and examples', async () => {
  for (const verb of describedProgram().commands) {
    const page = pages.get(`man8/kfd-checkpoint-${verb.name()}.8`) ?? '';
    const { stdout } = await cli([verb.name(), '--help']);
    const [, options = ''] = stdout.split('\nOptions:\n');
    const shown = optionsIn((options.split('\nExamples:\n')[0] ?? '').replace(/^ {5,}.*$/gm, ''));
    assert.ok(shown.includes('--help'), verb.name());
    const terms = [...section(page, 'OPTIONS').matchAll(/^\.TP\n(.*)$/gm)].map(([, term]) => term);
    assert.deepEqual(optionsIn(terms.join('\n').replace(/<.*?>/g, '')), shown, verb.name());
    assert.ok(page.includes(verb.summary()), verb.name());
    for (const { name, required } of verb.registeredArguments.map((one) => ({
      name: one.name(),
      required: one.required,
    }))) {
      assert.ok(section(page, 'ARGUMENTS').includes(name.replaceAll('-', '\\-')), name);
      assert.ok(stdout.includes(required ? `<${name}>` : `[${name}`), name);
    }
    const examples = section(page, 'EXAMPLES').replaceAll('\\-', '-');
    const [, told = ''] = stdout.split('\nExamples:\n');
    const commands = [...told.matchAll(/^ {2}(\S.*)$/gm)].map(([, command]) => command ?? '');
    assert.ok(commands.length > 0, verb.name());
    for (const command of commands) assert.ok(examples.includes(`\n${command}\n`), command);
  }
});

test('the page of the program has the exit statuses, its verbs and its other pages', () => {
  const page = pages.get('man8/kfd-checkpoint.8') ?? '';
  assert.match(section(page, 'EXIT STATUS'), /^incompatible or damaged archive$/m);
  const related = section(page, 'SEE ALSO').replaceAll('\\-', '-');
  for (const path of pages.keys()) {
    const [, name = '', number] = /\/(.*)\.(\d)$/.exec(path) ?? [];
    if (name !== 'kfd-checkpoint') assert.ok(related.includes(`\\fB${name}\\fR(${number})`), name);
  }
});

test('pages are printed with these fonts, lists, tables and special characters', () => {
  const document = [
    '# Title',
    'This page is for nobody. `--a b` and **c** and *d*.',
    '.TH is no request here, nor is',
    "'x' or \\\\ or é.",
    '## First [one](limits.md)',
    '- see [configuration.md](configuration.md#options)',
    '### Below',
    '1. one',
    '```',
    '.code   stays',
    '```',
    '| a | b |',
    '|---|---|',
    '| `x` | y |',
  ].join('\n');
  const read = (path: string) => {
    if (path === 'docs/configuration.md') return document;
    return readFileSync(join(repository, path), 'utf8');
  };
  const page = manPages(read, edition).get('man5/kfd-checkpoint-config.5');
  assert.equal(
    page,
    [
      '\'\\" t',
      '.TH "KFD-CHECKPOINT-CONFIG" "5" "2026-11-25" "kfd-checkpoint 9.8.7"',
      '.nh',
      '.ad l',
      '.SH "NAME"',
      'kfd\\-checkpoint\\-config \\- configuration of kfd\\-checkpoint',
      '.SH "DESCRIPTION"',
      'This page is for nobody. \\fB\\-\\-a b\\fR and \\fBc\\fR and \\fId\\fR. .TH is no request here, nor is ' +
        "'x' or \\e or \\[u00E9].",
      '.SH "FIRST ONE"',
      '.IP "\\(bu" 4',
      'see \\fBkfd\\-checkpoint\\-config\\fR(5)',
      '.SS "Below"',
      '.IP "1." 4',
      'one',
      '.PP',
      '.RS 4',
      '.nf',
      '\\&.code   stays',
      '.fi',
      '.RE',
      '.PP',
      '.TS',
      'lBw(1n) lBw(1n)',
      'lw(1n) lw(1n).',
      'T{\na\nT}\tT{\nb\nT}',
      'T{\n\\fBx\\fR\nT}\tT{\ny\nT}',
      '.TE',
      '.SH "SEE ALSO"',
      '\\fBkfd\\-checkpoint\\fR(8), \\fBkfd\\-checkpoint\\-check\\fR(8)',
      '',
    ].join('\n'),
  );
});

test('mandoc finds nothing wrong with any page', { skip: isMissing('mandoc') }, async (t) => {
  const folder = await temporaryFolder(t);
  for (const [name, text] of pages) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), text);
  }
  const args = ['-Tlint', '-Wwarning', ...pages.keys()];
  const { status, stdout, stderr } = spawnSync('mandoc', args, { cwd: folder, encoding: 'utf8' });
  assert.deepEqual([status, stdout, stderr], [0, '', '']);
  const wrong = spawnSync('mandoc', ['-Tlint', '-Wwarning'], { input: '.XX\n', encoding: 'utf8' });
  assert.notEqual(wrong.status, 0, 'mandoc says when something is wrong');
});
