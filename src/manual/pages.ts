/** All man pages. The verbs' come from the program, the others from the documents. */

import { asPage, sectionOf } from './markdown.js';
import { describedProgram } from './program.js';
import { type Edition, page, paragraph, type Title } from './roff.js';
import { pageOf, programPage, type Reference, seeAlso, verbPage, verbsOf } from './verb-pages.js';

/** Reads a document by its path in the repository. */
export type ReadDocument = (path: string) => string;

interface DocumentPage extends Title {
  readonly document: string;
  readonly related: readonly Reference[];
}

const documents: readonly DocumentPage[] = [
  {
    name: 'kfd-checkpoint-config',
    section: 5,
    summary: 'configuration of kfd-checkpoint',
    document: 'docs/configuration.md',
    related: ['kfd-checkpoint(8)', 'kfd-checkpoint-check(8)'],
  },
  {
    name: 'kfd-checkpoint-image',
    section: 5,
    summary: 'format of GPU checkpoints',
    document: 'docs/image-format.md',
    related: ['kfd-checkpoint(8)', 'kfd-checkpoint-inspect(8)', 'kfd-checkpoint-verify(8)'],
  },
  {
    name: 'containerd-shim-kfd-v2',
    section: 8,
    summary: 'containerd shim for containers with an AMD GPU',
    document: 'docs/containerd.md',
    related: ['kfd-checkpoint(8)', 'kfd-checkpoint-configure(8)'],
  },
];

/** Pages by file name below `share/man`, such as "man8/kfd-checkpoint.8". */
export function manPages(read: ReadDocument, edition: Edition): Map<string, string> {
  const program = describedProgram();
  const pages = new Map<string, string>();
  const add = (name: string, section: 5 | 8, text: string) => {
    pages.set(`man${section}/${name}.${section}`, text);
  };
  const sections = {
    'Exit status': sectionOf(read('docs/troubleshooting.md'), 'Exit status'),
    Files: sectionOf(read('docs/installation.md'), 'What configure writes'),
    Documents: paragraph(
      'Pages that are named here, such as limits.md, are in /usr/share/doc/kfd\\-checkpoint/docs.',
    ),
  };
  add(program.name(), 8, programPage(program, sections, edition));
  for (const verb of verbsOf(program)) add(pageOf(verb), 8, verbPage(program, verb, edition));
  for (const { document, related, ...title } of documents) {
    const body = asPage(read(document)) + seeAlso(...related);
    add(title.name, title.section, page(title, edition, body));
  }
  return pages;
}
