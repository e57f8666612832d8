#include "criu-plugin/abi.h"

#include <dlfcn.h>
#include <link.h>

#include <cstring>
#include <string>

namespace kfdcp::criu {

namespace {

// All of CRIU's symbols are looked up at run time: the set differs between versions, and a missing
// one must disable a feature, not the plugin.
template <class F>
F symbol(const char* name) {
  return reinterpret_cast<F>(::dlsym(RTLD_DEFAULT, name));
}

}  // namespace

unsigned host_hook_slots() {
  void* control = ::dlsym(RTLD_DEFAULT, "cr_plugin_ctl");
  Dl_info info{};
  const ElfW(Sym)* entry = nullptr;
  if (control == nullptr ||
      ::dladdr1(control, &info, const_cast<void**>(reinterpret_cast<const void**>(&entry)),
                RTLD_DL_SYMENT) == 0 ||
      entry == nullptr) {
    return 0;
  }
  constexpr std::size_t list_head = 2 * sizeof(void*);
  return entry->st_size < list_head
             ? 0
             : static_cast<unsigned>((entry->st_size - list_head) / list_head);
}

int final_task_state() {
  const int* options = symbol<const int*>("opts");
  if (options == nullptr) return -1;
  // TASK_ALIVE 1, TASK_DEAD 2, TASK_STOPPED 3: anything else means the layout moved.
  return *options >= 1 && *options <= 3 ? *options : -1;
}

int image_directory() {
  const auto get = symbol<int (*)()>("criu_get_image_dir");
  return get == nullptr ? -1 : get();
}

int service_descriptor(int type) {
  const auto get = symbol<int (*)(int)>("get_service_fd");
  return get == nullptr ? -1 : get(type);
}

void register_in_inventory(const char* name) {
  if (const auto add = symbol<int (*)(const char*)>("add_inventory_plugin")) add(name);
}

bool claim_from_inventory(const char* name) {
  const auto claim =
      symbol<bool (*)(const char*, std::size_t)>("check_and_remove_inventory_plugin");
  return claim == nullptr || claim(name, std::strlen(name));
}

bool add_script(const char* program) {
  const auto add = symbol<int (*)(char*)>("add_script");
  std::string path(program);
  return add != nullptr && add(path.data()) == 0;  // CRIU keeps a copy
}

bool run_program(const char* program) {
  const auto run = symbol<int (*)(int, int, int, char*, char* const*, unsigned)>("cr_system");
  std::string path(program);
  char* const arguments[] = {path.data(), nullptr};
  constexpr int kNone = -1;  // no input; output and errors to the log
  return run != nullptr && run(kNone, kNone, kNone, path.data(), arguments, 0) == 0;
}

}  // namespace kfdcp::criu
