/* The tests' own folders: gone with the process that made them, or, when it was killed, with the
 * next folder that is made. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "temp_dir.h"

static bool there(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

/* A process that makes a folder with a folder and a file in it, tells its name, and
 * exits, or waits to be killed. */
static pid_t make_elsewhere(char *dir, bool stays)
{
    char inner[64], file[80];
    int fds[2];
    cr_assert_eq(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        temp_dir_make(dir);
        snprintf(inner, sizeof inner, "%s/in", dir);
        snprintf(file, sizeof file, "%s/file", inner);
        if (mkdir(inner, 0700) != 0 || close(open(file, O_CREAT | O_WRONLY, 0600)) != 0 ||
            write(fds[1], dir, 32) != 32)
            _exit(1);
        if (!stays)
            exit(0);
        for (;;)
            pause();
    }
    cr_assert_eq(read(fds[0], dir, 32), 32);
    close(fds[0]);
    close(fds[1]);
    return pid;
}

static void make_old(const char *dir)
{
    const struct timespec long_ago[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    cr_assert_eq(utimensat(AT_FDCWD, dir, long_ago, 0), 0);
}

Test(temp_dir, goes_with_its_process)
{
    char dir[32];
    int how;
    cr_assert_gt(waitpid(make_elsewhere(dir, false), &how, 0), 0);
    cr_assert(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    cr_assert(!there(dir), "%s is left", dir);
}

Test(temp_dir, of_a_killed_process_goes_later)
{
    char killed[32], living[32], mine[32];
    pid_t dead = make_elsewhere(killed, true), alive = make_elsewhere(living, true);
    cr_assert_eq(kill(dead, SIGKILL), 0);
    cr_assert_eq(waitpid(dead, NULL, 0), dead);
    cr_assert(there(killed) && there(living));
    temp_dir_make(mine);
    cr_assert(there(killed), "a young one may be about to be locked");
    make_old(killed);
    make_old(living);
    temp_dir_remove(mine);
    temp_dir_make(mine);
    bool gone = !there(killed), kept = there(living);
    kill(alive, SIGKILL);
    waitpid(alive, NULL, 0);
    temp_dir_remove(living);
    cr_assert(gone, "%s is left", killed);
    cr_assert(kept, "%s was in use", living);
}
