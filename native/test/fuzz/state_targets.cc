// KFD's state file, the private data in it, and the state of a render file.
#include <cstring>
#include <stdexcept>

#include "core/drm/render_state.h"
#include "core/kfd/blob_bos.h"
#include "core/kfd/state.h"
#include "test/drm/render_sample.h"
#include "test/fuzz/targets.h"
#include "test/kfd/state_damage.h"
#include "test/kfd/state_sample.h"

namespace kfdcp::test {
namespace {

/// Whether a state file names no features: then nothing of it is read past.
bool featureless(std::span<const std::byte> input) {
  std::uint64_t features;
  std::memcpy(&features, input.data() + 24, sizeof features);
  return features == 0;
}

bool same(const Bytes& encoded, std::span<const std::byte> input) {
  return std::equal(encoded.begin(), encoded.end(), input.begin(), input.end());
}

void run_state(std::span<const std::byte> input) {
  refusing([&] {
    const ProcessState state = decode_state(input);
    promise(!featureless(input) || same(encode_state(state), input), "state encodes to itself");
    promise(blob_bos(state).size() == state.bos.size(), "a fact for each BO");
  });
}

void run_render(std::span<const std::byte> input) {
  refusing([&] {
    const RenderState state = decode_render_state(input);
    promise(!featureless(input) || same(encode_render_state(state), input),
            "render state encodes to itself");
  });
}

void run_blob(std::span<const std::byte> input) {
  ProcessState state = sample_state();
  state.priv.assign(input.begin(), input.end());
  refusing([&] {
    const auto bos = blob_bos(state);
    promise(bos.size() == state.bos.size(), "a fact for each BO");
    for (const BlobBo& bo : bos) promise(bo.gpus.size() <= 2, "only GPUs of the process");
  });
}

std::vector<Bytes> state_seeds() {
  std::vector<Bytes> seeds;
  for (const auto& [name, state] : golden_states()) seeds.push_back(encode_state(state));
  return seeds;
}

std::vector<Bytes> render_seeds() {
  std::vector<Bytes> seeds;
  for (const auto& [name, state] : golden_render_states()) {
    seeds.push_back(encode_render_state(state));
  }
  return seeds;
}

/// The process record, those of the GPUs and BOs, and some queues' worth of bytes.
std::vector<Bytes> blob_seeds() {
  Bytes blob(8 + 2 * 8 + 3 * 272 + 100);
  for (std::uint32_t bo = 0; bo < 3; ++bo) {
    std::byte* at = blob.data() + 24 + bo * 272;
    const std::uint32_t gpu = bo == 2 ? 0xabcd : 0x1234;
    std::memcpy(at + 8, &bo, sizeof bo);
    std::memcpy(at + 12, &gpu, sizeof gpu);
  }
  return {blob};
}

}  // namespace

std::vector<FuzzTarget> state_targets() {
  return {{"state", run_state, resealed_state, state_seeds},
          {"render", run_render, resealed_state, render_seeds},
          {"blob", run_blob, nullptr, blob_seeds}};
}

}  // namespace kfdcp::test
