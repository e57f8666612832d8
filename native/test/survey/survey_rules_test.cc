// Every reason to refuse a checkpoint, on made-up facts.
#include "core/survey/survey_rules.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace kfdcp::test {
namespace {

ProcessFacts process(int pid, bool kfd = false) {
  ProcessFacts facts;
  facts.pid = pid;
  facts.ns_pid = static_cast<std::uint32_t>(pid - 100);
  facts.comm = std::to_string(pid).insert(0, 1, 'c');
  facts.kfd_process = kfd;
  return facts;
}

/// Each with another descriptor: 201 of pid 101, and so on.
std::vector<Holder> held_by(std::initializer_list<int> pids) {
  std::vector<Holder> holders;
  for (const int pid : pids) holders.push_back({pid, pid + 100});
  return holders;
}

FileFacts file(std::initializer_list<int> holders, std::uint32_t minor = 0) {
  FileFacts facts;
  facts.holders = held_by(holders);
  facts.minor = minor;
  return facts;
}

/// An init without a GPU, and a GPU process with its mappings and one file of each kind.
TreeFacts sound() {
  TreeFacts facts;
  facts.processes = {process(101), process(102, true)};
  facts.processes[1].maps_gpu = true;
  facts.kfd = {file({102})};
  facts.render = {file({102}, 128)};
  return facts;
}

/// The only refusal of `facts`; what there is instead when it is not one.
std::string refusal(const TreeFacts& facts) {
  const Decision decision = decide(facts);
  if (decision.refusals.size() == 1) return decision.refusals[0];
  std::string all = std::to_string(decision.refusals.size()) + " refusals:";
  for (const std::string& one : decision.refusals) all += "\n" + one;
  return all;
}

}  // namespace

TEST_CASE("survey: a sound tree has owners for every file and no refusal") {
  const Decision decision = decide(sound());
  CHECK(decision.refusals.empty());
  CHECK(decision.kfd_owners == std::vector<int>{102});
  CHECK(decision.render_owners == std::vector<int>{102});
}

TEST_CASE("survey: a child that inherited both files changes nothing") {
  TreeFacts facts = sound();
  facts.processes.push_back(process(103));
  facts.kfd[0].holders = held_by({103, 102});
  facts.render[0].holders = held_by({103, 102});
  const Decision decision = decide(facts);
  CHECK(decision.refusals.empty());
  CHECK(decision.kfd_owners == std::vector<int>{102});
  CHECK(decision.render_owners == std::vector<int>{102});
}

TEST_CASE("survey: one process may open /dev/kfd more than once, or without a render node") {
  TreeFacts facts = sound();
  facts.kfd.push_back(file({102}));
  facts.render.clear();
  const Decision decision = decide(facts);
  CHECK(decision.refusals.empty());
  CHECK(decision.kfd_owners == std::vector<int>{102, 102});
}

TEST_CASE("survey: two GPU processes keep their files apart") {
  TreeFacts facts = sound();
  facts.processes.push_back(process(103, true));
  facts.kfd.push_back(file({103}));
  facts.render.insert(facts.render.begin(), file({103}, 128));
  const Decision decision = decide(facts);
  CHECK(decision.refusals.empty());
  CHECK(decision.kfd_owners == std::vector<int>{102, 103});
  CHECK(decision.render_owners == std::vector<int>{103, 102});
}

TEST_CASE("survey: a tree without a GPU is never refused") {
  TreeFacts facts;
  facts.processes = {process(101)};
  facts.processes[0].foreign_user_namespace = true;
  facts.processes[0].dmabufs = {{5, 77}};
  facts.processes[0].smi_descriptors = {6};
  facts.processes[0].io_uring = true;
  CHECK(facts.without_gpu());
  CHECK(decide(facts).refusals.empty());
  for (const auto& with : {sound()}) CHECK_FALSE(with.without_gpu());
}

TEST_CASE("survey: descriptors that cannot be saved") {
  TreeFacts facts = sound();
  SUBCASE("dma-buf in a pid namespace of its own") {
    facts.processes[0].dmabufs = {{5, 77}, {6, 78}};
    CHECK(decide(facts).refusals.empty());
    facts.processes[0].ns_pid = facts.processes[1].ns_pid;
    CHECK(refusal(facts) ==
          "pid 101 (c101) holds dma-buf inode 77 open as descriptor 5, and pid 102 (c102) has the "
          "same pid in another pid namespace: at a restore they could not be distinguished");
    facts.processes[0].dmabufs.clear();
    CHECK(decide(facts).refusals.empty());
  }
  SUBCASE("a mapping of a dma-buf") {
    facts.processes[0].mapped_dmabufs = {{0x7f0000001000, 77}};
    CHECK(refusal(facts) ==
          "pid 101 (c101) maps dma-buf inode 77 at address 0x7f0000001000: CRIU cannot save a "
          "mapping of a dma-buf");
  }
  SUBCASE("io_uring, of a process without the GPU") {
    facts.processes[0].io_uring = true;
    CHECK(refusal(facts) == "pid 101 (c101) uses io_uring, which CRIU cannot save");
  }
  SUBCASE("SMI events") {
    facts.processes[1].smi_descriptors = {9};
    CHECK(refusal(facts) ==
          "pid 102 (c102) listens to KFD SMI events on descriptor 9: such a descriptor cannot be "
          "saved");
  }
}

TEST_CASE("survey: a user namespace anywhere in the tree, named once") {
  TreeFacts facts = sound();
  for (auto& each : facts.processes) each.foreign_user_namespace = true;
  CHECK(refusal(facts) ==
        "pid 101 (c101) is in a user namespace: KFD allows saving and restoring only in the "
        "initial one");
}

TEST_CASE("survey: a KFD file that a lower pid of the container inherited") {
  TreeFacts facts = sound();
  facts.kfd[0].holders = held_by({102, 101});
  CHECK(refusal(facts) ==
        "pid 102 (c102) owns a /dev/kfd file that pid 101 (c101) with a lower pid inherited: this "
        "order cannot be restored");
  CHECK(decide(facts).kfd_owners == std::vector<int>{Decision::kNobody});

  // After the host's pids wrapped around, only the order in the container counts.
  facts.processes[0].ns_pid = 50;
  CHECK(decide(facts).refusals.empty());
}

TEST_CASE("survey: KFD files without one owner in the tree") {
  TreeFacts facts = sound();
  SUBCASE("opened outside") {
    facts.processes.push_back(process(103));
    facts.kfd.push_back(file({103}));
    CHECK(refusal(facts) == "pid 103 (c103) holds /dev/kfd of a process outside the container");
  }
}

TEST_CASE("survey: render files without KFD, and several of one node") {
  TreeFacts facts = sound();
  facts.processes[0].maps_gpu = true;
  facts.render.push_back(file({101}, 128));
  facts.render.push_back(file({102}, 128));
  const Decision decision = decide(facts);
  CHECK(decision.refusals.empty());
  CHECK(decision.render_owners == std::vector<int>{102, 101, 102});

  facts.kfd.clear();
  facts.processes = {process(101), process(103)};
  facts.render = {file({103, 101}, 128)};
  CHECK(decide(facts).refusals.empty());
  CHECK(decide(facts).render_owners == std::vector<int>{101});
}

TEST_CASE("survey: render files that cannot be given back") {
  TreeFacts facts = sound();
  SUBCASE("shared by two GPU processes") {
    facts.processes.push_back(process(103, true));
    facts.kfd.push_back(file({103}));
    facts.render[0].holders = held_by({103, 102});
    CHECK(decide(facts).refusals.front() ==
          "pid 103 (c103) and pid 102 (c102) share one render file: not supported yet");
  }
  SUBCASE("held by a process with a lower pid, too") {
    facts.render[0].holders = held_by({101, 102});
    CHECK(refusal(facts) ==
          "pid 102 (c102) uses a render file that pid 101 (c101) with a lower pid holds, too: this "
          "order cannot be restored");
  }
  SUBCASE("KFD in use without /dev/kfd") {
    facts.processes[0].kfd_process = true;
    facts.render.push_back(file({101}, 128));
    CHECK(refusal(facts) ==
          "pid 101 (c101) uses KFD but closed its /dev/kfd descriptor: not supported");
  }
  SUBCASE("objects that can never be saved") {
    facts.render[0].refusals = {"GEM handle 3: it is encrypted"};
    facts.render[0].holders = held_by({103, 102});
    facts.processes.push_back(process(103));
    CHECK(refusal(facts) ==
          "pid 102 (c102): descriptor 202 (renderD128): GEM handle 3: it is encrypted");
  }
}

TEST_CASE("survey: a GPU process that inherited the file of another before it opened its own") {
  TreeFacts facts = sound();
  facts.processes.push_back(process(103, true));
  facts.kfd[0].holders = held_by({103, 102});
  facts.kfd.push_back(file({103}));
  const Decision decision = decide(facts);
  CHECK(decision.refusals.empty());
  CHECK(decision.kfd_owners == std::vector<int>{102, 103});

  // Without one of its own its state would be lost.
  facts.kfd.pop_back();
  CHECK(refusal(facts) ==
        "pid 103 (c103) uses KFD but closed its /dev/kfd descriptor: not supported");
}

TEST_CASE("survey: one render file of each GPU") {
  TreeFacts facts = sound();
  facts.render.push_back(file({102}, 129));
  const Decision decision = decide(facts);
  CHECK(decision.refusals.empty());
  CHECK(decision.render_owners == std::vector<int>{102, 102});
}

TEST_CASE("survey: a closed /dev/kfd is noticed, also when no GPU file is open at all") {
  TreeFacts facts = sound();
  facts.processes.push_back(process(103, true));
  const std::string sentence =
      "pid 103 (c103) uses KFD but closed its /dev/kfd descriptor: not supported";
  CHECK(refusal(facts) == sentence);
  facts = {};
  facts.processes = {process(103, true)};
  CHECK(refusal(facts) == sentence);
}

TEST_CASE("survey: mappings of a GPU, also when no GPU file is open at all") {
  TreeFacts facts = sound();
  facts.processes[0].maps_gpu = true;
  const std::string sentence =
      "pid 101 (c101) maps GPU memory of another process: not supported yet";
  CHECK(refusal(facts) == sentence);
  facts.kfd.clear();
  facts.render.clear();
  facts.processes.pop_back();
  CHECK(refusal(facts) == sentence);
}

TEST_CASE("survey: mappings of another driver's render nodes") {
  TreeFacts facts = sound();
  facts.processes[0].foreign_maps = {129};
  const std::string sentence = "pid 101 (c101) maps renderD129, which is none of KFD's GPUs";
  CHECK(refusal(facts) == sentence);
  facts.processes[1].foreign_maps = {129, 130};
  CHECK(decide(facts).refusals.size() == 3);
  facts = {};
  facts.processes = {process(101)};
  facts.processes[0].foreign_maps = {129};
  CHECK_FALSE(facts.without_gpu());
  CHECK(refusal(facts) == sentence);
}

TEST_CASE("survey: card nodes that are open or mapped, without any other GPU file") {
  TreeFacts facts;
  facts.processes = {process(101)};
  facts.processes[0].cards = {{5, 0}};
  CHECK(refusal(facts) ==
        "pid 101 (c101) holds card0 open as descriptor 5: CRIU cannot save a card node, only its "
        "render node");
  facts.processes[0].cards.clear();
  facts.processes[0].mapped_cards = {1};
  CHECK(refusal(facts) ==
        "pid 101 (c101) maps card1: CRIU cannot save a card node, only its render node");
}

TEST_CASE("survey: a GPU in use that has no node in the container") {
  TreeFacts facts = sound();
  facts.processes[1].without_node = {128};
  CHECK(refusal(facts) ==
        "pid 102 (c102) uses renderD128, and the container's /dev has no node of that GPU: a "
        "restore could not open it");
}

TEST_CASE("survey: several reasons are all listed") {
  TreeFacts facts = sound();
  facts.render[0].refusals = {"GEM handle 3: it is encrypted", "GEM handle 4: it is, too"};
  facts.processes[0].smi_descriptors = {5, 6};
  CHECK(decide(facts).refusals.size() == 4);
}

}  // namespace kfdcp::test
