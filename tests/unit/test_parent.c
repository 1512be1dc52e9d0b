/* die_with_parent where the kernel does not help: this file compiles it as for a system that is not Linux. */
#undef __linux__
#include "common/parent.c" /* NOLINT */

#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/wait.h>

/* The child of a process that ends. */
static _Noreturn void child(int out)
{
    char ready = die_with_parent() == ST_OK ? 'r' : 'f';
    if (write(out, &ready, 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static _Noreturn void parent(int from, int out)
{
    char ready;
    pid_t pid = fork();
    if (pid == 0)
        child(out);
    /* ends when the child has begun to look for it */
    _exit(pid > 0 && read(from, &ready, 1) == 1 && ready == 'r' ? 0 : 1);
}

Test(parent, a_child_ends_with_it)
{
    int told[2], life[2], status;
    char byte;
    cr_assert(pipe(told) == 0 && pipe(life) == 0);
    pid_t pid = fork();
    cr_assert(pid >= 0);
    if (pid == 0) {
        close(life[0]);
        parent(told[0], told[1]);
    }
    close(life[1]); /* the two others have it */
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    cr_expect_eq(read(life[0], &byte, 1), 0, "the child has ended too");
    close(life[0]);
    close(told[0]);
    close(told[1]);
}

Test(parent, not_across_exec)
{
    cr_expect_eq(die_with_parent_across_exec(), ST_UNSUPPORTED);
}
