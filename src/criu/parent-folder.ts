/**
 * How `kfd-checkpoint checkpoint --parent` passes the indexes of the parent to a session: by a folder named after the
 * command's process. CRIU is a descendant of that process only. So the folder of a killed command, or of another
 * running one, is never used.
 */

import * as v from 'valibot';
import { archiveNamePattern, pagesPattern } from '../manifest/names.js';

/** Name of that folder in the run folder; `process`: see `processName`. */
export function parentFolderName(process: string): string {
  return `parent-${process}`;
}

/** The pid in such a name; undefined for any other. */
export function parentFolderPid(name: string): number | undefined {
  const digits = /^parent-([1-9]\d{0,8})-\d+$/.exec(name)?.[1];
  return digits === undefined ? undefined : Number(digits);
}

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
