/** An edit as a unified diff. */

import { createTwoFilesPatch, FILE_HEADERS_ONLY } from 'diff';

/** Empty when nothing changes. A binary file gives one line, as in diff(1). */
export function diff(path: string, before: string | undefined, after: string | undefined): string {
  if (before === after) return '';
  const oldName = before === undefined ? '/dev/null' : path;
  const newName = after === undefined ? '/dev/null' : path;
  if (`${before}${after}`.includes('\0')) return `Binary files ${oldName} and ${newName} differ\n`;
  return createTwoFilesPatch(oldName, newName, before ?? '', after ?? '', undefined, undefined, {
    context: 3,
    headerOptions: FILE_HEADERS_ONLY,
  });
}
