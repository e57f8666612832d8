/** Names of our files in an image directory. File names use ordinals: gpu ids differ per host. */

export const manifestName = 'kfd-manifest.json';

/** Feature an image requires when contents of it are in another one: `parent` of the manifest. */
export const parentFeature = 'parent';

/** A file name that can be looked for beside another file, and shown: no folder, no control characters. */
export const archiveNamePattern = /^(?!\.{1,2}$)[^/\p{C}]{1,255}$/u;

/** Every file a manifest may name; nothing else is ever opened on a manifest's word. */
export const imageFilePattern =
  /^(kfd-state-\d+|render-state-\d+|amdgpu-pages-\d+-[0-9a-f]{4})\.img$/;
export const statePattern = /^kfd-state-(\d{1,6})\.img$/;
/** The number is that of the render file among all of the image. */
export const renderStatePattern = /^render-state-(\d{1,6})\.img$/;
/** The prefix makes stock checkpointctl count these as GPU memory. */
export const pagesPattern = /^amdgpu-pages-(\d{1,6})-([0-9a-f]{4})\.img$/;

/** State file of one process, by its ordinal in the manifest. */
export function stateFileName(process: number): string {
  return `kfd-state-${process}.img`;
}

/** State file of one render file, by its number in the image. */
export function renderStateFileName(renderFile: number): string {
  return `render-state-${renderFile}.img`;
}

/** Pages file of one process on one GPU, both by their ordinals in the manifest. */
export function pagesFileName(process: number, gpu: number): string {
  return `amdgpu-pages-${process}-${gpu.toString(16).padStart(4, '0')}.img`;
}
