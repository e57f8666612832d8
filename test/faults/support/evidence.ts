/** Logs of the operation that was tried: what follows on the same container writes over them. */

import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { namedSessionLog } from '../../e2e/support/session.js';

const folder = '/share/evidence';
/** The end of CRIU's log. */
const keptLines = 400;

export class Evidence {
  readonly #texts = new Map<string, string>();

  /** What is there now: CRIU's logs in podman's folder of the container, and those of the sessions that they name. */
  constructor(bundle: string | undefined) {
    for (const name of bundle === undefined ? [] : ['dump.log', 'restore.log']) {
      const text = textIfAny(join(bundle ?? '', name));
      if (text === undefined) continue;
      this.#texts.set(name, text.split('\n').slice(-keptLines).join('\n'));
      const session = namedSessionLog(text);
      const said = session === undefined ? undefined : textIfAny(session);
      if (said !== undefined) this.#texts.set(`session-${name}`, said);
    }
  }

  /** For whoever looks for the reason of a failure. */
  keep(row: string): void {
    const own = join(folder, row.replaceAll(/[^\w.-]+/g, '-'));
    mkdirSync(own, { recursive: true });
    for (const [name, text] of this.#texts) writeFileSync(join(own, name), text, 'latin1');
  }
}

function textIfAny(path: string): string | undefined {
  return existsSync(path) ? readFileSync(path, 'latin1') : undefined;
}
