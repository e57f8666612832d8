// What the parts of the fake kernel have in common.
#pragma once

#include <sys/ioctl.h>

#include <cstdint>
#include <utility>

namespace kfdcp::test {

template <class Map>
std::uint32_t lowest_free(const Map& map) {
  if (map.empty() || map.rbegin()->first == map.size()) {  // no hole among tens of thousands
    return static_cast<std::uint32_t>(map.size()) + 1;
  }
  std::uint32_t number = 1;
  while (map.contains(number)) ++number;
  return number;
}

/// Under the lowest free number, which is returned.
template <class Map>
std::uint32_t insert_lowest(Map& map, typename Map::mapped_type value) {
  const std::uint32_t number = lowest_free(map);
  map[number] = std::move(value);
  return number;
}

template <class T>
T* at(std::uint64_t address) {
  return reinterpret_cast<T*>(address);
}

inline unsigned number_of(unsigned long request) { return _IOC_NR(request); }

}  // namespace kfdcp::test
