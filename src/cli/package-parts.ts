/** The files of the package for CRIU and podman, as `configure` writes and `check` expects them. */

import { isWholeElf, isWholeScript } from '../criu/damage.js';
import {
  actionScriptTemplate,
  packagedLauncher,
  packagedPlugin,
  renderActionScript,
} from '../criu/state-folder.js';
import { hookScript, hookTemplate, renderHookFile } from '../runtime/hook-file.js';
import { type Roots, read } from './roots.js';

/** Texts of the files, each character a byte. Undefined: the text cannot be made. */
export interface PackageParts {
  readonly plugin: string | undefined;
  readonly launcher: string | undefined;
  readonly action: string | undefined;
  readonly hook: string | undefined;
  /** The missing or damaged files of the package. */
  readonly unusable: readonly string[];
}

/** Reads the files. Throws Node's error for a file that exists and cannot be read. */
export async function readPackage(roots: Roots): Promise<PackageParts> {
  const unusable: string[] = [];
  const whole = async (path: string, isWhole: (text: string) => boolean) => {
    const text = await read(roots, path);
    if (text !== undefined && isWhole(text)) return text;
    unusable.push(path);
    return undefined;
  };
  const plugin = await whole(packagedPlugin(roots.prefix), isWholeElf);
  const launcher = await whole(packagedLauncher(roots.prefix), isWholeElf);
  const action = await whole(actionScriptTemplate(roots.prefix), isWholeScript);
  const script = await whole(hookScript(roots.prefix), isWholeScript);
  let hook: string | undefined;
  await whole(hookTemplate(roots.prefix), (template) => {
    try {
      hook = renderHookFile({ template, script: script ?? '' }, roots.prefix);
      return true;
    } catch {
      return false; // podman starts no container with a hook file that is not valid
    }
  });
  return {
    plugin,
    launcher,
    action: action === undefined ? undefined : renderActionScript(action, roots.prefix),
    hook: script === undefined ? undefined : hook,
    unusable,
  };
}
