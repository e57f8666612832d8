// Compiled with -mavx2 (CMakeLists.txt).
#ifdef __x86_64__
#include "core/pages/hash_kernels_body.h"

static_assert(XXH_VECTOR == XXH_AVX2);

namespace kfdcp {

const HashKernels kHashAvx2 = {hash64, hash_both};

}  // namespace kfdcp
#endif
