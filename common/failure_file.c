#include "common/failure_file.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/status.h"

void failure_file_write(const char *path)
{
    const char *why = status_text();
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    if (fd < 0)
        return; /* the log has the reason too */
    ssize_t n = write(fd, why, strlen(why));
    (void)n;
    close(fd);
}

void failure_file_read(const char *path, char *out, size_t n)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, out, n - 1) : 0;
    out[got > 0 ? got : 0] = '\0';
    if (fd >= 0)
        close(fd);
}
