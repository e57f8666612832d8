/** A test with a node of its own, which is clean and gone afterwards. */

import { goHome, loadGpu } from '../../e2e/support/gpu.js';
import { partTest } from '../../e2e/support/part.js';
import { type Step, stepsOf } from '../../e2e/support/steps.js';
import { keepEvidence, Node, type NodeOptions } from './node.js';

/** `body` has steps, one after the other; one that fails ends the test. */
export function onNode(
  name: string,
  options: NodeOptions & { readonly skip?: string | undefined },
  body: (node: Node, step: Step) => Promise<void>,
): void {
  partTest(name, { skip: options.skip ?? false }, async (suite) => {
    const node = await Node.start(options).catch(async (error) => {
      await keepEvidence(name);
      throw error;
    });
    const step = stepsOf(suite);
    try {
      await body(node, step);
      await step('nothing is left', () => node.assertNothingLeft());
    } catch (error) {
      await keepEvidence(name);
      throw error;
    } finally {
      await node.stop();
      await goHome().catch(() => undefined);
      if (options.gpu !== undefined) await loadGpu().catch(() => undefined);
    }
  });
}
