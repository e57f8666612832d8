/** A module hook (node:module, register): imports of node:test are imports of collect.js. */

export async function resolve(
  specifier: string,
  context: { readonly parentURL?: string },
  next: (specifier: string, context: unknown) => Promise<unknown>,
): Promise<unknown> {
  const { href } = new URL('./collect.js', import.meta.url);
  // collect.js itself needs the real one.
  if (specifier !== 'node:test' || context.parentURL === href) return next(specifier, context);
  return { url: href, shortCircuit: true };
}
