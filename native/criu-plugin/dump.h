// The dump side of the plugin: pause, read state, hand it to the session, unpause.
#pragma once

namespace kfdcp::criu {

/// First call of a dump, with the root of a tree that still runs: where the tree uses a GPU, starts
/// the session, which takes time that the tree should not stand still for. Later calls do nothing.
/// Throws Error when a session is needed and does not start.
void begin_dump(int root_pid);

/// First call of a dump handles the whole stopped tree of `root_pid`; later calls do nothing.
/// Throws Error; nothing stays paused then only after finish_dump().
void checkpoint_tree(int root_pid);

/// Names CRIU file `id` to the session. False when `fd` is no dma-buf and no KFD or
/// render file of the tree.
bool dump_file(int fd, int id);

/// Unpauses whatever is paused, unless the session accepted the dump and the tasks will be killed.
void finish_dump(int result) noexcept;

}  // namespace kfdcp::criu
