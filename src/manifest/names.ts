/** Names of our files in an image directory. File names use ordinals: gpu ids differ per host. */

export const manifestName = 'kfd-manifest.json';

/** The feature that an image requires when some of its contents are in its parent. */
export const parentFeature = 'parent';

/** The feature that an image requires when its pages files are in a folder of their own. */
export const detachedFeature = 'detached';

/** The feature that an image requires when all of its contents are in stores. */
export const storesFeature = 'stores';

/** GPU ordinals from here on are those of stores: no GPU has one. */
export const firstStore = 0x8000;

/** How many stores an image may have. */
export const maxStores = 0x10000 - firstStore;

/** A safe file name: without folder and control characters. */
export const archiveNamePattern = /^(?!\.{1,2}$)[^/\p{C}]{1,255}$/u;

/** Files that look like ours. Leftovers of a checkpoint are found and removed by this. */
export const imageFilePattern =
  /^(kfd-state-\d+|render-state-\d+|amdgpu-pages-\d+-[0-9a-f]{4})\.img$/;
/** The files that a manifest may name, each in one spelling. No other file is opened because of a manifest. */
export const namedFilePattern =
  /^(?:(?:kfd-state|render-state)-(?:0|[1-9]\d{0,5})|amdgpu-pages-(?:0|[1-9]\d{0,5})-[0-9a-f]{4})\.img$/;
export const statePattern = /^kfd-state-(0|[1-9]\d{0,5})\.img$/;
/** The number of the render file, counted over the whole image. */
export const renderStatePattern = /^render-state-(0|[1-9]\d{0,5})\.img$/;
/** Because of the prefix, checkpointctl counts these files as GPU memory. */
export const pagesPattern = /^amdgpu-pages-(0|[1-9]\d{0,5})-([0-9a-f]{4})\.img$/;

/** A pages file that holds contents alone, for the other pages files of its image. */
export const storePattern = /^amdgpu-pages-0-[89a-f][0-9a-f]{3}\.img$/;

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
