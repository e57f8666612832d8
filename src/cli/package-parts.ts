/** What of the package is given to CRIU and podman, as `configure` writes it and `check` expects it. */

import { isWholeElf, isWholeScript } from '../criu/damage.js';
import {
  actionScriptTemplate,
  packagedLauncher,
  packagedPlugin,
  renderActionScript,
} from '../criu/state-folder.js';
import { hookScript, hookTemplate, renderHookFile } from '../runtime/hook-file.js';
import { type Place, read } from './place.js';

/** Texts for the files outside the package, each character a byte; undefined: cannot be made. */
export interface PackageParts {
  readonly plugin: string | undefined;
  readonly launcher: string | undefined;
  readonly action: string | undefined;
  readonly hook: string | undefined;
  /** The files of the package that are the reason, missing or damaged. */
  readonly unusable: readonly string[];
}

/** Reads them. Throws Node's error for what is there and cannot be read. */
export async function readPackage(place: Place): Promise<PackageParts> {
  const unusable: string[] = [];
  const whole = async (path: string, isWhole: (text: string) => boolean) => {
    const text = await read(place, path);
    if (text !== undefined && isWhole(text)) return text;
    unusable.push(path);
    return undefined;
  };
  const plugin = await whole(packagedPlugin(place.prefix), isWholeElf);
  const launcher = await whole(packagedLauncher(place.prefix), isWholeElf);
  const action = await whole(actionScriptTemplate(place.prefix), isWholeScript);
  const script = await whole(hookScript(place.prefix), isWholeScript);
  let hook: string | undefined;
  await whole(hookTemplate(place.prefix), (template) => {
    try {
      hook = renderHookFile({ template, script: script ?? '' }, place.prefix);
      return true;
    } catch {
      return false; // podman starts no container with a hook file that is not valid
    }
  });
  return {
    plugin,
    launcher,
    action: action === undefined ? undefined : renderActionScript(action, place.prefix),
    hook: script === undefined ? undefined : hook,
    unusable,
  };
}
