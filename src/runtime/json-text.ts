/**
 * Edits of one member of a JSON text. Every byte outside the edit is kept. The reason: specs hold
 * 64-bit numbers that do not survive JSON.parse, and the container engine reads all of them back.
 * jsonc-parser makes the edits. It accepts comments, and takes the first of two members with one name,
 * where container engines take the last. Both are refused here.
 */

import { applyEdits, type JSONPath, modify, type Node, parseTree } from 'jsonc-parser';

/** Where the value of a top-level member lies in the text: [start, end). */
export interface MemberRange {
  readonly start: number;
  readonly end: number;
}

/**
 * Finds a member of the top-level object. Throws SyntaxError when the text is not JSON, when it is
 * not an object, or when the object has the member twice.
 */
export function findMember(text: string, key: string): MemberRange | undefined {
  const value = memberOf(objectIn(text), key);
  return value && rangeOf(value);
}

/** The text with `value` as the member `key` of the top-level object. Throws as `findMember`. */
export function withMember(text: string, key: string, value: unknown): string {
  memberOf(objectIn(text), key);
  return edited(text, [key], value);
}

/**
 * The text with the member at `path` changed. A text without that member is returned unchanged.
 * `change` receives the parsed value. Throws SyntaxError when the text is not JSON, or when an object
 * on the path has its member twice.
 */
export function withChanged(
  text: string,
  path: readonly string[],
  change: (value: unknown) => unknown,
): string {
  let node: Node | undefined = rootOf(text);
  for (const key of path) {
    node = node?.type === 'object' ? memberOf(node, key) : undefined;
  }
  if (node === undefined) return text;
  const { start, end } = rangeOf(node);
  // Not getNodeValue: it loses a member with the name __proto__.
  return edited(text, [...path], change(JSON.parse(text.slice(start, end))));
}

/** A new member becomes the first one. */
function edited(text: string, path: JSONPath, value: unknown): string {
  return applyEdits(text, modify(text, path, value, { getInsertionIndex: () => 0 }));
}

function rootOf(text: string): Node {
  JSON.parse(text); // throws for all that is not JSON
  const root = parseTree(text);
  if (root === undefined) throw new SyntaxError('not JSON');
  return root;
}

function objectIn(text: string): Node {
  const root = rootOf(text);
  if (root.type !== 'object') throw new SyntaxError('not a JSON object');
  return root;
}

function memberOf({ children = [] }: Node, key: string): Node | undefined {
  const values = children.flatMap(({ children: [name, value] = [] }) =>
    name?.value === key && value !== undefined ? [value] : [],
  );
  if (values.length > 1) throw new SyntaxError(`"${key}" is there twice`);
  return values[0];
}

function rangeOf({ offset, length }: Node): MemberRange {
  return { start: offset, end: offset + length };
}
