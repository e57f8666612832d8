// Decides from collected facts which processes of a tree can be saved.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kfdcp {

/// What the survey learned about one process.
struct ProcessFacts {
  int pid = 0;               // as the surveying process sees it
  std::uint32_t ns_pid = 0;  // as its container sees it
  std::string comm;
  bool kfd_process = false;  // KFD lists it: it opened /dev/kfd itself
  bool maps_gpu = false;     // has mappings of /dev/kfd or of a render node of KFD's GPUs
  std::vector<std::uint32_t> foreign_maps;  // minors of the other render nodes it maps
  struct Card {
    int fd;
    std::uint32_t minor;
  };
  std::vector<Card> cards;                  // card nodes it has open
  std::vector<std::uint32_t> mapped_cards;  // minors
  /// Minors of render nodes of KFD's GPUs that it has open or maps, without a node in the
  /// container's /dev.
  std::vector<std::uint32_t> without_node;
  bool foreign_user_namespace = false;
  std::vector<int> smi_descriptors;
  bool io_uring = false;  // it has rings open or mapped
  struct Dmabuf {
    int fd;
    std::uint64_t inode;
  };
  std::vector<Dmabuf> dmabufs;
  struct MappedDmabuf {
    std::uint64_t address;
    std::uint64_t inode;
  };
  std::vector<MappedDmabuf> mapped_dmabufs;
};

/// A process that has a file open.
struct Holder {
  int pid;  // is among the processes
  int fd;   // its first descriptor of it
};

/// One struct file of /dev/kfd or a render node.
struct FileFacts {
  std::vector<Holder> holders;        // at least one
  std::uint32_t minor = 0;            // of the device node
  std::vector<std::string> refusals;  // render nodes only: what it holds and cannot be saved
};

struct TreeFacts {
  std::vector<ProcessFacts> processes;
  std::vector<FileFacts> kfd;
  std::vector<FileFacts> render;

  /// Nothing of a GPU is open, in use or mapped.
  bool without_gpu() const;
};

struct Decision {
  static constexpr int kNobody = -1;
  std::vector<int> kfd_owners;        // pid for each of facts.kfd, or kNobody
  std::vector<int> render_owners;     // pid for each of facts.render, or kNobody
  std::vector<std::string> refusals;  // one sentence each; empty: everything can be saved
};

/// A tree without a GPU is never refused.
Decision decide(const TreeFacts& facts);

}  // namespace kfdcp
