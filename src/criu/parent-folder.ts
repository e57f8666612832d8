/**
 * How `kfd-checkpoint checkpoint --parent` passes the indexes of the parent to a session: by a folder named after
 * its own process. CRIU is a descendant of that one and of no other, so neither a command that was killed
 * nor another one at the same time is mistaken for it.
 */

import * as v from 'valibot';
import { archiveNamePattern, pagesPattern } from '../manifest/names.js';

/** Name of that folder in the run folder; `process`: as `processName` returns it. */
export function parentFolderName(process: string): string {
  return `parent-${process}`;
}

/** The pid in such a name; undefined for any other. */
export function parentFolderPid(name: string): number | undefined {
  const digits = /^parent-([1-9]\d{0,8})-\d+$/.exec(name)?.[1];
  return digits === undefined ? undefined : Number(digits);
}

/** In the folder, beside an index for each pages file, under its name. */
export const parentFileName = 'parent.json';

const schema = v.strictObject({
  /** Name of the archive, without folder. */
  archive: v.pipe(v.string(), v.regex(archiveNamePattern)),
  /** Pages files there is an index of. */
  files: v.array(v.pipe(v.string(), v.regex(pagesPattern))),
});

export type ParentFile = v.InferOutput<typeof schema>;

/** Throws SyntaxError, or what valibot throws. */
export function decodeParentFile(text: string): ParentFile {
  return v.parse(schema, JSON.parse(text));
}
