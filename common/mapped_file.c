#include "common/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* macOS: a shared mapping is what llama.cpp gives to Metal as a buffer; a private one has not been tried.  Elsewhere: some
 * file systems refuse a shared one. */
#ifdef __APPLE__
enum { SHARING = MAP_SHARED };
#else
enum { SHARING = MAP_PRIVATE };
#endif

enum status mapped_file_open(struct mapped_file *f, const char *path)
{
    struct stat st;
    f->data = (const unsigned char *)"";
    f->size = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK /* a FIFO must not hold us up */);
    if (fd < 0)
        FAIL(errno == ENOENT ? ST_NOT_FOUND : ST_IO, "cannot open %s: %s", path, strerror(errno));
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        FAIL(ST_IO, "%s is not a regular file", path);
    }
    if (st.st_size == 0) {
        close(fd);
        return ST_OK;
    }
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, SHARING, fd, 0);
    int err = errno;
    close(fd); /* the mapping keeps the file */
    if (p == MAP_FAILED)
        FAIL(ST_IO, "cannot map %s: %s", path, strerror(err));
    f->data = p;
    f->size = (size_t)st.st_size;
    return ST_OK;
}

void mapped_file_close(struct mapped_file *f)
{
    if (f->size)
        munmap((void *)f->data, f->size);
    f->data = (const unsigned char *)"";
    f->size = 0;
}
