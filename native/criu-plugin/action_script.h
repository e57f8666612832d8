// The action script is not in CRIU's configuration: CRIU would run it for every container of the
// host. The plugin adds it to a dump or restore that uses a GPU.
#pragma once

namespace kfdcp::criu {

/// From now on CRIU runs the script at every stage. Throws Error{unsupported} when this CRIU takes
/// no scripts from a plugin.
void add_action_script();

/// Runs the script for the stage pre-dump, which CRIU passes before it loads plugins. CRIU's time
/// limit for stopping the tree stands still meanwhile. Throws Error{io} when the script fails; it
/// has written the reason to CRIU's log.
void run_pre_dump_script();

}  // namespace kfdcp::criu
