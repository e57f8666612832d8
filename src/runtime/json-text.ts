/**
 * Changing one member of a JSON text and no other byte. Specs hold 64-bit numbers that do not
 * survive JSON.parse, and the engine reads every one of them back.
 */

/** Where the value of a top-level member lies in the text: [start, end). */
export interface MemberRange {
  readonly start: number;
  readonly end: number;
}

/**
 * Finds a member of the top-level object. The text must be valid JSON with an object at the top;
 * throws when it is not an object, or when the member is there twice.
 */
export function findMember(text: string, key: string): MemberRange | undefined {
  let found: MemberRange | undefined;
  let at = skipSpace(text, 0);
  if (text[at] !== '{') throw new SyntaxError('not a JSON object');
  at = skipSpace(text, at + 1);
  while (text[at] === '"') {
    const keyEnd = endOfString(text, at);
    const name: unknown = JSON.parse(text.slice(at, keyEnd));
    const start = skipSpace(text, skipSpace(text, keyEnd) + 1);
    const end = endOfValue(text, start);
    if (name === key) {
      if (found !== undefined) throw new SyntaxError(`"${key}" is there twice`);
      found = { start, end };
    }
    at = skipSpace(text, end);
    if (text[at] !== ',') break;
    at = skipSpace(text, at + 1);
  }
  return found;
}

/** The text with `value` as the member `key` of the top-level object; all else byte for byte. */
export function withMember(text: string, key: string, value: unknown): string {
  const member = findMember(text, key);
  const json = JSON.stringify(value);
  if (member !== undefined) return text.slice(0, member.start) + json + text.slice(member.end);
  const inside = text.indexOf('{') + 1;
  const comma = text[skipSpace(text, inside)] === '}' ? '' : ',';
  return `${text.slice(0, inside)}${JSON.stringify(key)}:${json}${comma}${text.slice(inside)}`;
}

/**
 * The text with the member that `path` leads to changed; all else byte for byte. A text without that
 * member comes back as it was. `change` is given the parsed value.
 */
export function withChanged(
  text: string,
  path: readonly string[],
  change: (value: unknown) => unknown,
): string {
  const [key, ...rest] = path;
  if (key === undefined) return JSON.stringify(change(JSON.parse(text)));
  if (text[skipSpace(text, 0)] !== '{') return text;
  const member = findMember(text, key);
  if (member === undefined) return text;
  const value = text.slice(member.start, member.end);
  return text.slice(0, member.start) + withChanged(value, rest, change) + text.slice(member.end);
}

function skipSpace(text: string, from: number): number {
  let at = from;
  while (/[ \t\r\n]/.test(text[at] ?? '')) at += 1;
  return at;
}

/** The index behind the string that starts at `from`. */
function endOfString(text: string, from: number): number {
  let at = from + 1;
  while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return at + 1;
}

/** The index behind the value that starts at `from`. */
function endOfValue(text: string, from: number): number {
  let depth = 0;
  let at = from;
  while (at < text.length) {
    const char = text[at];
    if (char === '"') {
      at = endOfString(text, at);
      if (depth === 0) return at;
      continue;
    }
    if (char === '{' || char === '[') depth += 1;
    if (char === '}' || char === ']') {
      if (depth === 0) return trimmedEnd(text, from, at);
      depth -= 1;
      if (depth === 0) return at + 1;
    }
    if (char === ',' && depth === 0) return trimmedEnd(text, from, at);
    at += 1;
  }
  return at;
}

function trimmedEnd(text: string, from: number, end: number): number {
  return from + text.slice(from, end).trimEnd().length;
}
