/**
 * Finds the guards of C++ files, and writes the files with a switch for each: KFD_MUTANT=N takes guard N away. A guard
 * is `require(CONDITION, ...)`, or an `if` that refuses: that throws, or returns a fault, false or nothing.
 */

export interface Guard {
  readonly id: number;
  readonly line: number;
  readonly condition: string;
}

export interface Guarded {
  readonly text: string;
  readonly guards: readonly Guard[];
}

/**
 * What stands behind the condition of an `if` that refuses. A system call that fails is none: no input of a test makes
 * it fail.
 */
const refusals = [
  'throw (?!io_error)',
  '(?:corrupt|unsupported|another_layout|refuse\\w*|kKind\\.corrupt)\\(',
  'return (?:false|std::nullopt|nullptr|"[^"]*");',
];
const refusal = new RegExp(`^\\s*\\{?\\s*(?:${refusals.join('|')})`);

/** `firstId`: number of the first guard. */
export function withSwitches(source: string, firstId: number): Guarded {
  const guards: Guard[] = [];
  let text = '';
  let at = 0;
  for (const match of source.matchAll(/\b(require|if) ?\(/g)) {
    const open = match.index + match[0].length;
    if (open < at) continue;
    const isRequire = match[1] === 'require';
    const end = endOf(source, open, isRequire);
    const condition = end === undefined ? '' : source.slice(open, end);
    if (end === undefined || !isGuard(source, match.index, end, isRequire, condition)) continue;
    const id = firstId + guards.length;
    const line = source.slice(0, open).split('\n').length;
    guards.push({ id, line, condition: condition.replace(/\s+/g, ' ') });
    text += `${source.slice(at, open)}KFD_MUTANT(${id}) ? ${isRequire} : static_cast<bool>(${condition})`;
    at = end;
  }
  return { text: text + source.slice(at), guards };
}

function isGuard(
  source: string,
  start: number,
  end: number,
  isRequire: boolean,
  condition: string,
): boolean {
  // A declaration in a condition, and the definition of `require` itself.
  if (/^\s*(const|auto|bool|std::\w+) /.test(condition)) return false;
  if (isRequire) return source[end] === ',' && !/void\s+$/.test(source.slice(0, start));
  return refusal.test(source.slice(end + 1));
}

/** Where the first argument, or all in the parentheses, ends. */
function endOf(source: string, open: number, firstArgument: boolean): number | undefined {
  let depth = 0;
  for (let at = open; at < source.length; at++) {
    const sign = source[at] as string;
    if ('([{'.includes(sign)) depth += 1;
    if (depth === 0 && (sign === ')' || (firstArgument && sign === ','))) return at;
    if (')]}'.includes(sign)) depth -= 1;
  }
  return undefined;
}
