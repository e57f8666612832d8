// The codecs of frames that are copied as they are.
#pragma once

#include "core/pages/pages.h"

namespace kfdcp {

class CodecSet {
 public:
  void add(Codec codec) {
    lz4_ = lz4_ || codec == Codec::lz4;
    planes_ = planes_ || codec == Codec::planes;
  }
  /// The option of a writer whose file has the features for all of them.
  Compress option() const {
    if (lz4_) return planes_ ? Compress::automatic : Compress::lz4;
    return planes_ ? Compress::zstd : Compress::none;
  }

 private:
  bool lz4_ = false;
  bool planes_ = false;
};

}  // namespace kfdcp
