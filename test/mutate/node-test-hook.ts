/** A module hook (node:module, register): imports of node:test are imports of collect.js. */

export async function resolve(
  specifier: string,
  context: unknown,
  next: (specifier: string, context: unknown) => Promise<unknown>,
): Promise<unknown> {
  if (specifier !== 'node:test') return next(specifier, context);
  return { url: new URL('./collect.js', import.meta.url).href, shortCircuit: true };
}
