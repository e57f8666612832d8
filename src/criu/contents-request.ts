/**
 * How `kfd-checkpoint checkpoint --contents`, `restore --contents` and `migrate` pass folders of GPU contents to a
 * session. The request lies in the command's folder (command-folder.ts).
 *
 * A dump of podman finds it by its ancestors. A dump of containerd has other ancestors than the command, so the request
 * says for which image directory it is. A restore has others, too: podman starts conmon, which leaves podman before it
 * starts the OCI runtime. So the request of a restore says by digests which contents it is for.
 */

import * as v from 'valibot';

/** The request in the folder. */
export const requestFileName = 'contents.json';

const folder = v.pipe(v.string(), v.maxLength(4096), v.regex(/^\/[^\0]*$/, 'not an absolute path'));
const root = v.pipe(v.string(), v.regex(/^[0-9a-f]{32}$/, 'not a digest'));

const schema = v.variant('operation', [
  v.strictObject({
    operation: v.literal('dump'),
    /** Where pages files are written. */
    folder,
    /** A FIFO that gets them, too, while they are written. */
    stream: v.exactOptional(folder),
    /** The image directory, where sessions do not descend from the command. */
    image: v.exactOptional(folder),
  }),
  v.strictObject({
    operation: v.literal('restore'),
    /** Digests of all pages files of the image. */
    roots: v.pipe(v.array(root), v.minLength(1), v.maxLength(65_536)),
    /** Of the image where its contents are detached, then of its parent and so on. */
    folders: v.pipe(v.array(folder), v.minLength(1), v.maxLength(65)),
  }),
]);

export type ContentsRequest = v.InferOutput<typeof schema>;

/** Throws SyntaxError, or an error of valibot. */
export function decodeRequest(text: string): ContentsRequest {
  return v.parse(schema, JSON.parse(text));
}
