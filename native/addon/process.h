// Processes for the session: waiting for their end, KFD calls on their behalf.
#pragma once

#include <napi.h>

namespace kfdcp::addon {

/// JS: openPidfd(pid): Descriptor; watchExit(pidfd, onExit): stop function;
/// kfdVersion(): {major, minor}; kfdResume(pid): void; kfdUnpause(pid, kfd): boolean;
/// isAlive(pidfd): boolean; kill(pidfd): void (SIGKILL); xsaveBytes(): number | undefined.
void init_process(Napi::Env env, Napi::Object exports);

}  // namespace kfdcp::addon
