// A BO of another process, by its dma-buf.
#pragma once

#include <cstddef>
#include <span>

#include "core/fd.h"
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

}  // namespace lab
