// Does a render file own GEM objects or contexts? Kernels up to 6.17 cannot list them, but both
// kinds of number are the lowest free ones of an IDR, so asking for the first ones finds any.
#pragma once

namespace kfdcp {

/// `render_fd` may be a copy of another process's descriptor: GEM state belongs to the struct file.
bool owns_gem_objects(int render_fd);
bool owns_contexts(int render_fd);

}  // namespace kfdcp
