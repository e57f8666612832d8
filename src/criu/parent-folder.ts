/**
 * How `kfd-checkpoint checkpoint --parent` passes the indexes of the parent to a session: by the command's folder
 * (command-folder.ts). CRIU is a descendant of that process only. So the folder of a killed command, or of another
 * running one, is never used.
 */

import * as v from 'valibot';
import { archiveNamePattern, pagesPattern } from '../manifest/names.js';

/** The list in that folder. Beside it are the indexes of the pages files, under their names. */
export const parentFileName = 'parent.json';

const schema = v.strictObject({
  /** Name of the archive, without folder. */
  archive: v.pipe(v.string(), v.regex(archiveNamePattern)),
  /** Names of the pages files that have an index. */
  files: v.array(v.pipe(v.string(), v.regex(pagesPattern))),
});

export type ParentFile = v.InferOutput<typeof schema>;

/** Throws SyntaxError, or an error of valibot. */
export function decodeParentFile(text: string): ParentFile {
  return v.parse(schema, JSON.parse(text));
}
