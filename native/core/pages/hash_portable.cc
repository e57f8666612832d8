#ifdef __x86_64__
#define XXH_VECTOR 0  // XXH_SCALAR, which xxhash.h defines later
#endif
#include "core/pages/hash_kernels_body.h"

namespace kfdcp {

const HashKernels kHashPortable = {hash64, hash_both};

}  // namespace kfdcp
