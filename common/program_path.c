#include "common/program_path.h"

#ifdef __APPLE__
#include <mach-o/dyld.h>
#include <stdint.h>

bool program_path(char *path, size_t size)
{
    uint32_t n = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
    return _NSGetExecutablePath(path, &n) == 0;
}
#else
#include <unistd.h>

bool program_path(char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size);
    if (n <= 0 || (size_t)n >= size)
        return false;
    path[n] = '\0';
    return true;
}
#endif
