#include "client/cli/own_token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/state_path.h"
#include "common/random.h"

/* Another command may make it at the same time: the file appears whole, and only once. */
static enum status make(const char *path)
{
    char token[OWN_TOKEN_BYTES], draft[STATE_PATH + 32];
    random_bytes(token, sizeof token);
    snprintf(draft, sizeof draft, "%s.%ld", path, (long)getpid());
    int fd = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        FAIL(ST_IO, "%s: %s", draft, strerror(errno));
    bool whole = write(fd, token, sizeof token) == (ssize_t)sizeof token;
    whole = close(fd) == 0 && whole;
    bool placed = whole && (link(draft, path) == 0 || errno == EEXIST);
    int why = errno;
    unlink(draft);
    if (!placed)
        FAIL(ST_IO, "%s: %s", path, strerror(why));
    return ST_OK;
}

static enum status read_token(char token[OWN_TOKEN_BYTES], const char *path, int fd)
{
    struct stat st;
    char bytes[OWN_TOKEN_BYTES + 1];
    if (fstat(fd, &st) != 0 || read(fd, bytes, sizeof bytes) != OWN_TOKEN_BYTES)
        FAIL(ST_RANGE, "%s does not have %d bytes: remove it", path, OWN_TOKEN_BYTES);
    if (st.st_mode & (S_IRWXG | S_IRWXO))
        FAIL(ST_RANGE, "%s: others may read or write it (mode %03o): remove it", path,
             (unsigned)st.st_mode & 0777U);
    memcpy(token, bytes, OWN_TOKEN_BYTES);
    return ST_OK;
}

enum status own_token(char token[OWN_TOKEN_BYTES], const char *state_home, const char *home)
{
    char path[STATE_PATH];
    TRY(state_path(path, state_home, home, "token"));
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT) {
        TRY(make(path));
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    }
    if (fd < 0)
        FAIL(ST_IO, "%s: %s", path, strerror(errno));
    enum status st = read_token(token, path, fd);
    close(fd);
    return st;
}
