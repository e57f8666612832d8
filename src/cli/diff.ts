/** What an edit changes, in the form of a unified diff. */

import { createTwoFilesPatch, FILE_HEADERS_ONLY } from 'diff';

/** Empty when nothing changes; one line for a binary file, as diff(1) has it. */
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
