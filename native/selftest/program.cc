#include "selftest/program.h"

#include <charconv>
#include <functional>

#include "core/os/error.h"
#include "selftest/mailbox.h"

namespace kfdcp::selftest {
namespace {

constexpr std::uint64_t kMostMib = std::uint64_t{1} << 20;

std::uint64_t number(const std::string& word, std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size() || value == 0 || value > most) {
    throw Error(ErrorCode::unsupported, word + ": not a number from 1 to " + std::to_string(most));
  }
  return value;
}

}  // namespace

Options parse_options(const std::vector<std::string>& words) {
  Options options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto value = [&]() -> const std::string& {
      if (i + 1 == words.size()) throw Error(ErrorCode::unsupported, words[i] + ": needs a value");
      return words[++i];
    };
    if (words[i] == "--folder") {
      options.folder = value();
    } else if (words[i] == "--render") {
      options.minors.push_back(static_cast<unsigned>(number(value(), 4096)));
    } else if (words[i] == "--mib") {
      options.vram_bytes = number(value(), kMostMib) << 20;
    } else if (words[i] == "--share") {
      options.shares = true;
    } else {
      throw Error(ErrorCode::unsupported, words[i] + ": no such option");
    }
  }
  if (options.folder.empty()) throw Error(ErrorCode::unsupported, "--folder: is missing");
  if (options.minors.empty()) throw Error(ErrorCode::unsupported, "--render: is missing");
  return options;
}

Program::Program(const Options& options, const Places& places) {
  if (options.shares) partner_.emplace(places, options.minors.front(), 1);
  kfd_.emplace(places);
  for (const unsigned minor : options.minors) {
    const bool first = holdings_.empty();
    hold(holdings_.emplace_back(), minor, options, first);
  }
}

void Program::hold(Holding& holding, unsigned minor, const Options& options, bool first) {
  holding.gpu = std::make_unique<Gpu>(*kfd_, minor);
  Gpu& gpu = *holding.gpu;
  holding.mover = std::make_unique<Mover>(gpu);
  Mover& mover = *holding.mover;
  auto& parts = holding.parts;
  parts.push_back(std::make_unique<Contents>(gpu, mover, options.vram_bytes, minor));
  if (gpu.has_svm()) parts.push_back(std::make_unique<Svm>(gpu, mover, minor));
  parts.push_back(std::make_unique<Barrier>(gpu));
  if (first) parts.push_back(std::make_unique<Sleeper>(gpu));
  if (first && partner_) parts.push_back(std::make_unique<Shared>(gpu, mover, *partner_, 1));
  holding.stream = std::make_unique<Stream>(gpu);
}

void Program::verify() {
  for (const Holding& holding : holdings_) {
    try {
      for (const auto& part : holding.parts) {
        part->verify();
        holding.stream->feed();
      }
      holding.stream->verify();
    } catch (const Error& error) {
      throw Error(error.code, holding.gpu->name() + ": " + error.what(), error.err);
    }
  }
}

void Program::feed() {
  for (const Holding& holding : holdings_) holding.stream->feed();
}

std::string Program::state() const {
  std::string text = "\"rounds\":[";
  bool busy = true;
  const char* comma = "";
  for (const Holding& holding : holdings_) {
    text.append(comma).append(std::to_string(holding.stream->rounds()));
    busy = busy && holding.stream->busy();
    comma = ",";
  }
  text.append("],\"busy\":").append(busy ? "true" : "false").append(",\"parts\":[");
  for (const auto& part : holdings_.front().parts) text.append(json_text(part->name())).append(",");
  return text.append("\"sdma\"]");
}

}  // namespace kfdcp::selftest
