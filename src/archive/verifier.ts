/**
 * Native functions that this module needs. `src/native.ts` implements them. Commands inject them, so that nothing here
 * loads the addon.
 */

import type { Transform } from 'node:stream';

/** Facts about a complete and valid pages file. Sizes are bytes. */
export interface PagesFacts {
  /** Ordinals, as in the manifest. */
  readonly process: number;
  readonly gpu: number;
  readonly buffers: number;
  readonly contentBytes: number;
  readonly fileBytes: number;
  readonly frames: number;
  readonly zeroFrames: number;
  /** Frames stored in the parent. */
  readonly references: number;
  /** Frames whose contents are in other pages files of the image. */
  readonly siblings: number;
  /** It has digests: it can be a parent. */
  readonly digests: boolean;
  /** XXH3-128 over the index, 32 hex digits: the digest the manifest keeps. */
  readonly root: string;
  /** The root of the parent's pages file, if there is a parent. */
  readonly parent?: string;
}

/** Checks one streamed pages file: every frame, then the index. */
export interface PagesCheck {
  /** The next bytes, cut anywhere. Throws as soon as they show that the file is damaged. */
  feed(chunk: Buffer): void;
  /** After the last byte. Throws when the file is not complete. */
  finish(): PagesFacts;
}

/** Facts about a state file. */
export interface StateFacts {
  readonly ordinal: number;
  readonly nsPid: number;
  readonly numObjects: number;
  readonly bos: readonly { readonly size: number; readonly kind: string }[];
}

/** Facts about a render state file. */
export interface RenderStateFacts {
  readonly ordinal: number;
  /** How many there are. */
  readonly contexts: number;
  readonly boLists: number;
  readonly mappings: number;
  /** In the order of their GEM handles. */
  readonly bos: readonly (StateFacts['bos'][number] & { readonly handle: number })[];
}

/** Checks the references between the pages files of an image. */
export interface SiblingCheck {
  /** Call after the last file. Returns problems by the ordinals in the header of the referring file. */
  problems(): readonly {
    readonly process: number;
    readonly gpu: number;
    readonly reason: string;
  }[];
}

export interface ImageVerifier {
  /**
   * A sound file is added to `siblings`. `index`: path of a file to create. It gets the head and the index of the
   * pages file, which say which contents the file has, but no frames.
   */
  pagesCheck(siblings: SiblingCheck, index?: string): PagesCheck;
  siblingCheck(): SiblingCheck;
  /** Decodes a whole state file. Throws when its checksum, counts or version are wrong. */
  stateFacts(bytes: Buffer): StateFacts;
  /** Decodes a whole render state file. Throws when its checksum, counts or version are wrong. */
  renderStateFacts(bytes: Buffer): RenderStateFacts;
}

/** Makes the stream that decodes a zstd archive; Node 20 has none of its own. */
export type ZstdDecoderFactory = () => Transform;
