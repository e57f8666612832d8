/** A task of containerd that has arrived gets the device numbers of this host, as `restore` gives them to archives. */

import { moveImage } from '../archive/moved-image.js';
import { relocateSpec } from '../archive/relocate.js';
import { recordIn } from '../containerd/ctr.js';
import { maxRecordBytes } from '../containerd/moving.js';
import { readBounded, replaceFile } from '../os/files.js';
import type { Restorability } from './restorability.js';

/**
 * Changes the image directory, and the spec in the container's record, which the file `document` has. Throws as
 * `relocateImage` and `relocateSpec`, E_HOST for another document, E_IO for a larger one, Node's error.
 */
export async function fitTask(
  image: string,
  document: string,
  { contents, placement, host, cdi, needsRewriting }: Restorability,
): Promise<void> {
  const { manifest } = contents;
  if (manifest === undefined || placement === undefined) return;
  const text = (await readBounded(document, maxRecordBytes)).toString();
  const record = recordIn(text, 'the record of the container');
  const spec = JSON.stringify(record.Spec);
  const here = relocateSpec(spec, placement, host, cdi);
  if (here !== spec) {
    await replaceFile(document, JSON.stringify({ ...record, Spec: JSON.parse(here) }), 0o600);
  }
  if (needsRewriting) await moveImage(image, manifest, placement, host);
}
