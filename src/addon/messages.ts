/** Descriptors, and messages of the plugin and the launcher, as the addon delivers them. */

/** A file descriptor; closed by `close()` or, late, by the garbage collector. */
export interface Descriptor {
  /** -1 once closed. */
  readonly fd: number;
  close(): void;
}

/** A delivery of a `Listener`: a message, the end of a peer, or the end of listening. */
export type Delivery =
  | {
      readonly peer: number;
      /** Host pid of the sender, as reported by the kernel when it connected. */
      readonly pid: number;
      readonly type: number;
      readonly args: readonly number[];
      readonly body: Buffer;
      readonly fds: readonly Descriptor[];
      readonly closed?: undefined;
      readonly deaf?: undefined;
    }
  | {
      readonly peer: number;
      readonly pid: number;
      readonly closed: true;
      readonly reason?: string;
      readonly deaf?: undefined;
    }
  | {
      readonly peer: 0;
      readonly pid: 0;
      readonly closed: true;
      readonly reason?: undefined;
      /** Why nobody can connect any more. */
      readonly deaf: string;
    };

export interface Listener {
  /** Throws KFD_IO when the peer is gone. */
  reply(
    peer: number,
    type: number,
    args: readonly number[],
    text: string,
    fds: readonly Descriptor[],
  ): void;
  close(): void;
}
