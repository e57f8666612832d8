#pragma once

namespace kfdcp::criu {

/// The plugin's name in CRIU's inventory. CRIU matches by prefix, so it must be a prefix of no
/// other plugin's name, nor the other way round.
inline constexpr char kPluginName[] = "kfd_checkpoint";

}  // namespace kfdcp::criu
