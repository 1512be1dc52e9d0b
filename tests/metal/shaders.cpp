/* All kernels of the shader text, compiled as C++: the very text that is in the binary. */
#include "matrix_cxx.h"

#include "metal_source.metal"

#undef device
#undef thread

const std::vector<metal_double_kernel> &metal_double_kernels()
{
    static const std::vector<metal_double_kernel> all = {
#define ROW(name) kernel_of(#name, name),
        METAL_KERNELS(ROW)
#undef ROW
    };
    return all;
}
