// A BO of another process, by its dma-buf.
#pragma once

#include <cstddef>
#include <span>

#include "core/os/fd.h"
#include "runtime.h"

namespace lab {

/// Mapped to this process' GPU address space.
class ImportedBuffer {
 public:
  /// The descriptor may be closed afterwards. Throws Error{gpu}.
  ImportedBuffer(const Runtime& runtime, int dmabuf);
  ~ImportedBuffer();
  ImportedBuffer(const ImportedBuffer&) = delete;
  ImportedBuffer& operator=(const ImportedBuffer&) = delete;

  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(base_), size_}; }

 private:
  void* base_ = nullptr;
  std::size_t size_ = 0;
};

/// Likewise, by a handle of ROCr's IPC. The exporter must run, for it is asked on a socket.
class AttachedBuffer {
 public:
  /// Throws Error{gpu}.
  AttachedBuffer(const hsa_amd_ipc_memory_t& handle, std::size_t size);
  ~AttachedBuffer();
  AttachedBuffer(const AttachedBuffer&) = delete;
  AttachedBuffer& operator=(const AttachedBuffer&) = delete;

  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(base_), size_}; }

 private:
  void* base_ = nullptr;
  std::size_t size_;
};

/// Lets the processes above have `buffer`. Throws Error{gpu}.
hsa_amd_ipc_memory_t ipc_handle(const PoolBuffer& buffer);

}  // namespace lab
