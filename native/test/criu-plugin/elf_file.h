// The dynamic section of a shared object, read from the file.
#pragma once

#include <doctest/doctest.h>
#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace kfdcp::test {

class ElfFile {
 public:
  explicit ElfFile(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    REQUIRE(bytes_.size() > sizeof(Elf64_Ehdr));
    const auto header = at<Elf64_Ehdr>(0);
    REQUIRE(std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0);
    for (unsigned i = 0; i < header.e_shnum; ++i) {
      sections_.push_back(at<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr)));
    }
  }

  /// Libraries the loader has to find (DT_NEEDED).
  std::vector<std::string> needed() const {
    std::vector<std::string> names;
    for (const auto& [entry, strings] : entries<Elf64_Dyn>(SHT_DYNAMIC)) {
      if (entry.d_tag == DT_NEEDED) names.push_back(text(strings, entry.d_un.d_val));
    }
    return names;
  }

  /// Name of the function at `address` of the file, as the compiler made it; empty: none is there.
  std::string function_at(Elf64_Addr address) const {
    for (const auto& [symbol, strings] : entries<Elf64_Sym>(SHT_SYMTAB)) {
      const bool function = ELF64_ST_TYPE(symbol.st_info) == STT_FUNC;
      if (function && symbol.st_value == address) return text(strings, symbol.st_name);
    }
    return {};
  }

  /// Dynamic symbols that others can bind to.
  std::vector<std::string> exported() const {
    std::vector<std::string> names;
    for (const auto& [symbol, strings] : entries<Elf64_Sym>(SHT_DYNSYM)) {
      const bool local = ELF64_ST_BIND(symbol.st_info) == STB_LOCAL;
      if (!local && symbol.st_shndx != SHN_UNDEF) names.push_back(text(strings, symbol.st_name));
    }
    return names;
  }

 private:
  template <class T>
  T at(std::size_t offset) const {
    REQUIRE(offset + sizeof(T) <= bytes_.size());
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }
  /// Every entry of the sections of `type`, with the section that holds its strings.
  template <class T>
  std::vector<std::pair<T, Elf64_Shdr>> entries(Elf64_Word type) const {
    std::vector<std::pair<T, Elf64_Shdr>> all;
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type != type) continue;
      for (std::size_t i = 0; i < section.sh_size / sizeof(T); ++i) {
        all.emplace_back(at<T>(section.sh_offset + i * sizeof(T)), sections_.at(section.sh_link));
      }
    }
    REQUIRE(!all.empty());
    return all;
  }
  std::string text(const Elf64_Shdr& strings, std::size_t offset) const {
    REQUIRE(strings.sh_offset + offset < bytes_.size());
    return bytes_.data() + strings.sh_offset + offset;
  }

  std::string bytes_;
  std::vector<Elf64_Shdr> sections_;
};

}  // namespace kfdcp::test
