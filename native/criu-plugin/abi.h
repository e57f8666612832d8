// The binary interface between CRIU (4.0 and newer) and a plugin. CRIU dlopen()s every .so of its
// plugin directory and looks for one symbol, CR_PLUGIN_DESC. CRIU reads `max_hooks` slots of the
// hook table. A plugin with the twelve slots of CRIU 4.0 therefore loads in every later version.
#pragma once

#include <sys/stat.h>

#include <cstdint>

namespace kfdcp::criu {

/// Slots of the hook table that this plugin uses.
enum Hook : unsigned {
  kDumpExtFile = 2,
  kRestoreExtFile = 3,
  kHandleDeviceVma = 7,
  kUpdateVmaMap = 8,
  kPauseDevices = 10,
  kCheckpointDevices = 11,
  kHookSlots = 12,
};

enum Stage : int { kDump = 0, kPreDump = 1, kRestore = 2 };

/// From this many slots on, RESTORE_EXT_FILE gets `bool* retry_needed`, which must be stored to.
/// With fewer slots that argument does not exist and must not be touched.
inline constexpr unsigned kSlotsWithRetry = 15;

/// Interface version 0.2.0, unchanged since CRIU 3.17.
inline constexpr unsigned kInterfaceVersion = 2u << 8;

/// What CR_PLUGIN_DESC must look like.
struct Descriptor {
  const char* name;
  int (*init)(int stage);
  void (*exit)(int stage, int result);
  unsigned version;
  unsigned max_hooks;
  void* hooks[kHookSlots];
};

/// The task state a dump leaves behind (first field of CRIU's option block): tasks continue or end.
inline constexpr int kTasksStayAlive = 1;
inline constexpr int kTasksDie = 2;

/// Number of hook slots the running CRIU knows, from the size of its exported `cr_plugin_ctl` (one
/// list head, then one per slot); 0 when unknown.
unsigned host_hook_slots();

/// CRIU's final task state for this dump, or -1 when unknown.
int final_task_state();

/// Image directory descriptor, or -1.
int image_directory();

/// Descriptors CRIU keeps for itself and that a restored task inherits; -1 when `type` is not set.
int service_descriptor(int type);

/// Names this plugin in inventory.img, so that a restore without it fails by name (CRIU >= 4.1).
void register_in_inventory(const char* name);
/// True when the image names this plugin, or does not name any (CRIU 4.0).
bool claim_from_inventory(const char* name);

/// Has CRIU run `program` at every stage that is still to come. False when CRIU cannot.
bool add_script(const char* program);
/// Runs `program` as CRIU runs a script, its output going to CRIU's log. False when it fails.
bool run_program(const char* program);

}  // namespace kfdcp::criu
