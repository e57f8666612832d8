/** As much of Markdown as the tests of the documents need. */

export interface Sentence {
  /** Line of the document where the paragraph begins, from 1. */
  line: number;
  words: number;
  text: string;
}

export interface Cell {
  /** Line of the document, from 1. */
  line: number;
  text: string;
}

const isTable = (line: string) => line.startsWith('|');
const beginsBlock = (line: string) => /^\s*(?:[-*]|\d+\.)\s/.test(line);
const isHeading = (line: string) => /^#+\s/.test(line);

/** Lines outside fenced code, each with its number; those inside are empty. */
function withoutCode(document: string): { line: number; text: string }[] {
  let inFence = false;
  return document.split('\n').map((text, at) => {
    const isFence = /^\s*```/.test(text);
    if (isFence) inFence = !inFence;
    return { line: at + 1, text: isFence || inFence ? '' : text };
  });
}

/** Inline code and links count as what the reader sees: one word, and the link's own text. */
function asRead(paragraph: string): string {
  return paragraph
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/`[^`]*`/g, 'code')
    .replace(/\*\*/g, '');
}

function sentencesOf(line: number, paragraph: string): Sentence[] {
  return asRead(paragraph)
    .split(/(?<=[.!?][)"]?)\s+/)
    .map((text) => ({
      line,
      words: text.split(/\s+/).filter((word) => /[A-Za-z0-9]/.test(word)).length,
      text,
    }));
}

/** The sentences of a document's paragraphs and list items: neither code, tables nor headings. */
export function prose(document: string): Sentence[] {
  const sentences: Sentence[] = [];
  let paragraph: string[] = [];
  let began = 1;
  const end = () => {
    if (paragraph.length > 0) sentences.push(...sentencesOf(began, paragraph.join(' ')));
    paragraph = [];
  };
  for (const { line, text } of withoutCode(document)) {
    const outside = text.trim() === '' || isTable(text) || isHeading(text);
    if (outside || beginsBlock(text)) end();
    if (outside) continue;
    if (paragraph.length === 0) began = line;
    paragraph.push(text.trim());
  }
  end();
  return sentences;
}

/** The cells of a document's tables, without the line below the head. */
export function tableCells(document: string): Cell[] {
  return withoutCode(document)
    .filter(({ text }) => isTable(text) && !/^[|\s:-]+$/.test(text))
    .flatMap(({ line, text }) =>
      text
        .replace(/^\||\|\s*$/g, '')
        .split(/(?<!\\)\|/)
        .map((cell) => ({ line, text: cell.trim() })),
    );
}
