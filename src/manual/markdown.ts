/** Documents in Markdown as sections of man pages. */

import { Lexer, type Token, type Tokens } from 'marked';
import {
  bold,
  type Cell,
  escaped,
  heading,
  italic,
  item,
  paragraph,
  subheading,
  table,
  verbatim,
} from './roff.js';

/** Documents that are man pages: links with their names as text lead there. */
const pages: ReadonlyMap<string, string> = new Map([
  ['configuration.md', `${bold('kfd\\-checkpoint\\-config')}(5)`],
  ['image-format.md', `${bold('kfd\\-checkpoint\\-image')}(5)`],
  ['containerd.md', `${bold('containerd\\-shim\\-kfd\\-v2')}(8)`],
]);

/** A section of a document: what is below one heading of the second level. */
export interface Section {
  /** Empty for what comes before the first one. */
  readonly title: string;
  readonly roff: string;
}

/** The sections of a document. Its own title is left out. Throws for Markdown that no document uses. */
export function sectionsOf(document: string): Section[] {
  const sections: { title: string; roff: string }[] = [{ title: '', roff: '' }];
  for (const token of Lexer.lex(document)) {
    if (token.type === 'heading' && token['depth'] === 1) continue;
    if (token.type === 'heading' && token['depth'] === 2) {
      sections.push({ title: textOf(token.tokens ?? []), roff: '' });
    } else (sections.at(-1) as { roff: string }).roff += block(token);
  }
  return sections;
}

/** One section, without its heading. Throws when the document has none of this title. */
export function sectionOf(document: string, title: string): string {
  const found = sectionsOf(document).find((one) => one.title === title);
  if (found === undefined) throw new Error(`no section ${title}`);
  return found.roff;
}

/** All sections with their headings. What comes before the first one is the description. */
export function asPage(document: string): string {
  return sectionsOf(document)
    .map(({ title, roff }) => heading(title === '' ? 'Description' : title) + roff)
    .join('');
}

function block(token: Token): string {
  switch (token.type) {
    case 'space':
      return '';
    case 'heading':
      return subheading(textOf(token.tokens ?? []));
    case 'paragraph':
      return paragraph(inline(token.tokens ?? []));
    case 'code':
      return verbatim((token as Tokens.Code).text);
    case 'list':
      return listOf(token as Tokens.List);
    case 'table':
      return tableOf(token as Tokens.Table);
    default:
      throw new Error(`Markdown with ${token.type}: ${token.raw}`);
  }
}

/** The text of an item is its first block; no document has others. */
function listOf({ ordered, items }: Tokens.List): string {
  return items
    .map(({ tokens: [first] }, at) => {
      const roff = inline((first as Tokens.Text | undefined)?.tokens ?? []);
      return item(ordered ? `${at + 1}.` : '\\(bu', roff);
    })
    .join('');
}

function tableOf({ header, rows }: Tokens.Table): string {
  const cell = ({ tokens }: Tokens.TableCell): Cell => ({
    roff: inline(tokens),
    text: textOf(tokens),
  });
  return table(
    header.map(cell),
    rows.map((row) => row.map(cell)),
  );
}

/** Text with its fonts: code and strong words are bold, other emphasis is underlined on terminals. */
function inline(tokens: readonly Token[]): string {
  return tokens.map(inlineOne).join('');
}

function inlineOne(token: Token): string {
  switch (token.type) {
    case 'text':
    case 'escape':
      return escaped(plain((token as Tokens.Text).text));
    case 'codespan':
      return bold(escaped((token as Tokens.Codespan).text));
    case 'strong':
      return bold(inline(token.tokens ?? []));
    case 'em':
      return italic(inline(token.tokens ?? []));
    case 'link':
      return pages.get((token as Tokens.Link).text) ?? inline(token.tokens ?? []);
    case 'html':
      if (/^<[a-z ]+>$/.test(token.raw)) return escaped(token.raw); // a placeholder, such as <pid>
      throw new Error(`Markdown with ${token.raw}`);
    default:
      throw new Error(`Markdown with ${token.type}: ${token.raw}`);
  }
}

/** What a reader sees. */
function textOf(tokens: readonly Token[]): string {
  return tokens
    .map((token) => {
      const below = 'tokens' in token ? token.tokens : undefined;
      if (below !== undefined && below.length > 0) return textOf(below);
      return 'text' in token ? plain(token['text'] as string) : token.raw;
    })
    .join('');
}

const plain = (text: string) => text.replace(/\n/g, ' ');
