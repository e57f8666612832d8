#include "core/transfer_run.h"

namespace kfdcp {

TransferStats sum_up(const std::vector<WorkerTimes>& times, const HashCost& hash) {
  WorkerTimes sum;
  for (const WorkerTimes& one : times) {
    sum.file += one.file;
    sum.code += one.code;
    sum.turn += one.turn;
    sum.file_bytes += one.file_bytes;
    sum.code_bytes += one.code_bytes;
  }
  TransferStats stats;
  stats.workers = times.size();
  stats.file = {sum.file_bytes, microseconds(sum.file)};
  stats.code = {sum.code_bytes, microseconds(sum.code)};
  stats.hash = {hash.bytes, microseconds(hash.time)};
  stats.turn_wait_us = microseconds(sum.turn);
  return stats;
}

std::vector<LiveSegment> LoadBuffers::open(const Load& load) {
  std::vector<LiveSegment> segments;
  segments.reserve(load.pieces.size());
  for (const Piece& piece : load.pieces) {
    if (piece.buffer != last_) {
      live_.reset();
      live_ = ring_.open(piece.buffer->id, piece.buffer->dmabuf.get(), piece.buffer->size);
      last_ = piece.buffer;
    }
    segments.push_back({live_, piece.offset, piece.slot_offset, piece.bytes});
  }
  return segments;
}

}  // namespace kfdcp
