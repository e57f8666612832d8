#include "core/pages/sibling_check.h"

#include <utility>

#include "core/pages/frame_bytes.h"
#include "core/pages/frame_identity.h"
#include "core/wire/image_files.h"

namespace kfdcp {

namespace {

/// Never 0.
std::uint64_t hash_of(const FrameEntry& frame) {
  struct Fields {
    Digest128 digest;
    std::uint64_t checksum;
    std::uint64_t raw;
  };
  return xxh3_64(bytes_of(Fields{frame.digest, frame.checksum, frame.raw})) | 1;
}

}  // namespace

void SiblingLinks::add(const FrameEntry& frame) {
  stored_.push_back(is_stored(frame.codec) ? hash_of(frame) : 0);
  if (frame.codec == Codec::sibling) references_.push_back({frame.offset, hash_of(frame)});
}

std::size_t SiblingLinks::bytes() const {
  return stored_.size() * sizeof(stored_[0]) + references_.size() * sizeof(references_[0]);
}

void SiblingCheck::add(const PagesOptions& options, SiblingLinks links) {
  const Id id{options.process, options.gpu};
  if (links.bytes() > most_bytes_ - bytes_) {
    left_out_.emplace(id, !links.references_.empty());
    return;
  }
  const std::size_t bytes = links.bytes();
  if (files_.try_emplace(id, std::move(links)).second) bytes_ += bytes;
}

void SiblingCheck::add(const PagesReader& file) {
  SiblingLinks links;
  for (std::uint64_t i = 0; i < file.summary().frames; ++i) links.add(file.frame(i));
  add(file.options(), std::move(links));
}

std::string SiblingCheck::judge(const SiblingLinks::Reference& reference) const {
  const SiblingFrame at = SiblingFrame::unpacked(reference.place);
  const std::string frame =
      "frame " + std::to_string(at.frame) + " of " + pages_file_name(at.process, at.gpu);
  const Id id{at.process, at.gpu};
  if (left_out_.contains(id)) return frame + ": more than can be checked";
  const auto file = files_.find(id);
  if (file == files_.end()) return frame + ": that file is missing or not sound";
  const std::vector<std::uint64_t>& stored = file->second.stored_;
  if (at.frame >= stored.size()) return frame + ": there is no such frame";
  if (stored[at.frame] == 0) return frame + ": is not stored there";
  if (stored[at.frame] != reference.identity) return frame + ": is another content";
  return {};
}

std::vector<SiblingCheck::Problem> SiblingCheck::problems() const {
  std::vector<Problem> out;
  for (const auto& [id, links] : files_) {
    for (const SiblingLinks::Reference& reference : links.references_) {
      const std::string reason = judge(reference);
      if (reason.empty()) continue;
      out.push_back({id.first, id.second, "refers to " + reason});
      break;
    }
  }
  for (const auto& [id, refers] : left_out_) {
    if (refers) out.push_back({id.first, id.second, "refers to more than can be checked"});
  }
  return out;
}

}  // namespace kfdcp
