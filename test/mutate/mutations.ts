/**
 * Finds the mutations of a compiled file, and writes the file with all of them in it. Each one is switched on by its
 * number while the program runs, so nothing is compiled again (mutant schemata).
 */

import ts from 'typescript';

export interface Mutation {
  readonly id: number;
  /** Offset in the compiled file. */
  readonly at: number;
  readonly from: string;
  readonly to: string;
}

export interface Mutated {
  readonly text: string;
  readonly mutations: readonly Mutation[];
}

const K = ts.SyntaxKind;

/** Other operators for an operator. The conditions of `if` and loops have mutations of their own. */
const operators = new Map<ts.SyntaxKind, readonly string[]>([
  [K.LessThanToken, ['<=', '>=']],
  [K.LessThanEqualsToken, ['<', '>']],
  [K.GreaterThanToken, ['>=', '<=']],
  [K.GreaterThanEqualsToken, ['>', '<']],
  [K.EqualsEqualsEqualsToken, ['!==']],
  [K.ExclamationEqualsEqualsToken, ['===']],
  [K.PlusToken, ['-']],
  [K.MinusToken, ['+']],
  [K.AsteriskToken, ['/']],
  [K.SlashToken, ['*']],
  [K.PercentToken, ['*']],
  [K.AmpersandToken, ['|']],
  [K.BarToken, ['&']],
  [K.LessThanLessThanToken, ['>>']],
  [K.PlusEqualsToken, ['-=']],
  [K.MinusEqualsToken, ['+=']],
]);

/** `firstId` is the number of the first mutation. `runtime` is what the written file imports `active.js` as. */
export function mutate(source: string, firstId: number, runtime: string): Mutated {
  const file = ts.createSourceFile('x.js', source, ts.ScriptTarget.ESNext, true, ts.ScriptKind.JS);
  const mutations: Mutation[] = [];

  const add = (node: ts.Node, to: string): number => {
    const id = firstId + mutations.length;
    mutations.push({ id, at: node.getStart(file), from: node.getText(file), to });
    return id;
  };

  /** The text of a node with its mutations, without leading trivia. */
  function emit(node: ts.Node): string {
    if (isHelper(node)) return node.getText(file);
    const alternatives = ts.isExpression(node) ? alternativesOf(node, file) : [];
    const ids = alternatives.map((to) => [add(node, to), to] as const);
    const removed = isRemovable(node, file) ? add(node, '') : undefined;
    let text = '';
    let at = node.getStart(file);
    ts.forEachChild(node, (child) => {
      text += source.slice(at, child.getStart(file)) + emit(child);
      at = child.end;
    });
    text += source.slice(at, node.end);
    // In braces: an `else` behind it belongs to the statement before.
    if (removed !== undefined) return `{ if (!__m(${removed})) { ${text} } }`;
    if (ids.length === 0) return text;
    return `(${ids.map(([id, to]) => `__m(${id}) ? (${to}) : `).join('')}(${text}))`;
  }

  const text = emit(file);
  return { text: `import { m as __m } from ${JSON.stringify(runtime)};${text}`, mutations };
}

/** What tsc adds for `using` is not ours. */
function isHelper(node: ts.Node): boolean {
  return ts.isVariableStatement(node) && /^var __\w+ = \(this && this\./.test(node.getText());
}

function alternativesOf(node: ts.Expression, file: ts.SourceFile): string[] {
  const text = node.getText(file);
  const found: string[] = [];
  const condition = conditionOf(node);
  if (condition !== undefined && text !== 'true') found.push('false');
  if (condition === 'choice') found.push('true');
  const { parent } = node;
  if (ts.isReturnStatement(parent) && !isConstant(text)) found.push('undefined');
  if (node.kind === K.TrueKeyword && condition === undefined) found.push('false');
  if (node.kind === K.FalseKeyword) found.push('true');
  if (ts.isPrefixUnaryExpression(node) && node.operator === K.ExclamationToken && !condition) {
    found.push(node.operand.getText(file));
  }
  if (ts.isPrefixUnaryExpression(node) || ts.isPostfixUnaryExpression(node)) {
    if (node.operator === K.PlusPlusToken) found.push(text.replace('++', '--'));
    if (node.operator === K.MinusMinusToken) found.push(text.replace('--', '++'));
  }
  if (ts.isBinaryExpression(node)) found.push(...otherBinary(node, file, condition !== undefined));
  return found;
}

function otherBinary(node: ts.BinaryExpression, file: ts.SourceFile, judged: boolean): string[] {
  const [left, right] = [node.left.getText(file), node.right.getText(file)];
  const { kind } = node.operatorToken;
  // Without one of the two conditions: each guard of several is switched off alone.
  const joins = [K.AmpersandAmpersandToken, K.BarBarToken, K.QuestionQuestionToken];
  if (joins.includes(kind)) return [left, right];
  if (kind === K.PlusToken && /^[`'"]/.test(left)) return [];
  const others = operators.get(kind) ?? [];
  // "true" and "false" say the same as the opposite comparison.
  const equality = kind === K.EqualsEqualsEqualsToken || kind === K.ExclamationEqualsEqualsToken;
  const chosen = judged ? (equality ? [] : others.slice(0, 1)) : others;
  return chosen.map((operator) => `${left} ${operator} ${right}`);
}

function conditionOf(node: ts.Expression): 'choice' | 'loop' | undefined {
  const { parent } = node;
  if (ts.isIfStatement(parent) && parent.expression === node) return 'choice';
  if (ts.isConditionalExpression(parent) && parent.condition === node) return 'choice';
  if (ts.isWhileStatement(parent) || ts.isDoStatement(parent)) {
    return parent.expression === node ? 'loop' : undefined;
  }
  return ts.isForStatement(parent) && parent.condition === node ? 'loop' : undefined;
}

function isConstant(text: string): boolean {
  return ['undefined', 'true', 'false', 'null', '[]', '{}', "''", '0'].includes(text);
}

/** Calls and assignments. A missing line of a log is no fault. Neither is a missing call of stages.ts. */
function isRemovable(node: ts.Node, file: ts.SourceFile): boolean {
  if (!ts.isExpressionStatement(node) || ts.isStringLiteral(node.expression)) return false;
  return !/^(super\(|stage\(|(\S+\.)?log\??\.(debug|info|warn|error)\()/.test(node.getText(file));
}
