/**
 * Native functions that this module needs. `src/native.ts` implements them. Commands inject them, so that nothing here
 * loads the addon.
 */

import type { Transform } from 'node:stream';
import type { PagesCheck, RenderStateFacts, SiblingCheck, StateFacts } from '../addon/images.js';

/** Checks the references between the pages files of an image. */
export type ImageSiblings = Pick<SiblingCheck, 'problems'>;

export interface ImageVerifier {
  /**
   * A sound file is added to `siblings`. `index`: path of a file to create. It gets the head and the index of the
   * pages file, which say which contents the file has, but no frames.
   */
  pagesCheck(siblings?: ImageSiblings, index?: string): PagesCheck;
  siblingCheck(): ImageSiblings;
  /** Checks a state file of `bytes` bytes by its first 128. Throws when its size or its counts are wrong. */
  stateHead(head: Buffer, bytes: number): void;
  renderStateHead(head: Buffer, bytes: number): void;
  /** Decodes a whole state file. Throws when its checksum, counts or version are wrong. */
  stateFacts(bytes: Buffer): StateFacts;
  /** Decodes a whole render state file. Throws when its checksum, counts or version are wrong. */
  renderStateFacts(bytes: Buffer): RenderStateFacts;
}

/** Makes the stream that decodes a zstd archive; Node 20 has none of its own. */
export type ZstdDecoderFactory = () => Transform;
