/** Where large temporary files go. */

/** $TMPDIR, or `beside` when it is not set or empty. */
export function temporaryRoot(beside: string): string {
  return process.env['TMPDIR'] || beside;
}
