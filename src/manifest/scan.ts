/** Looks at the text of a manifest before it becomes objects, which take many times the memory of their text. */

import { visit } from 'jsonc-parser';

/** Bounds of a document, above what the limits of a manifest allow. */
const limits = {
  depth: 8,
  /** Objects and arrays. A full manifest has a third less. */
  containers: 2_000_000,
  /** Numbers, strings, true, false and null. */
  values: 8_000_000,
  /** Different names of members. */
  names: 4096,
  nameLength: 64,
} as const;

class Fault extends Error {}

/**
 * Why the document is refused whatever it means, or undefined: it is deep, or has too many parts, or a member comes
 * twice, or has a name that every object has. Syntax errors are not found here.
 */
export function scanFault(text: string): string | undefined {
  const open: (Set<string> | undefined)[] = [];
  const names = new Set<string>();
  let containers = 0;
  let values = 0;
  const begin = (members?: Set<string>): void => {
    if (open.push(members) > limits.depth) throw new Fault(`deeper than ${limits.depth} levels`);
    if (++containers > limits.containers) {
      throw new Fault(`more than ${limits.containers} objects and arrays`);
    }
  };
  const end = (): void => void open.pop();
  const member = (name: string): void => {
    if (name.length > limits.nameLength || name in Object.prototype) {
      throw new Fault(`${name.slice(0, limits.nameLength)}: unknown member`);
    }
    const members = open.at(-1);
    if (members?.has(name)) throw new Fault(`${name}: is there twice in one object`);
    members?.add(name);
    names.add(name);
    if (names.size > limits.names) throw new Fault(`more than ${limits.names} names of members`);
  };
  try {
    visit(text, {
      onObjectBegin: () => begin(new Set()),
      onObjectProperty: member,
      onObjectEnd: end,
      onArrayBegin: () => begin(),
      onArrayEnd: end,
      onLiteralValue: () => {
        if (++values > limits.values) throw new Fault(`more than ${limits.values} values`);
      },
    });
  } catch (error) {
    if (error instanceof Fault) return error.message;
    throw error;
  }
  return undefined;
}
