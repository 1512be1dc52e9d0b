#include "client/cli/model_name.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "client/cli/commands.h"
#include "client/hub/hub_cache.h"

extern char **environ;

static enum status find_in_cache(struct model_place *out, const struct hub_name *name)
{
    struct hub_cache cache;
    char path[HUB_PATH_SIZE];
    TRY(hub_cache_init(&cache, getenv));
    TRY(hub_cache_find(&cache, name, path));
    if (strlen(path) >= sizeof out->path)
        FAIL(ST_RANGE, "the path of the model in the cache is too long: %.100s...", path);
    memcpy(out->path, path, strlen(path) + 1);
    return ST_OK;
}

/* `ingot pull` in the foreground; its path on standard output is not ours to print.  Returns its exit code. */
static int pull_model(const char *command, const char *given)
{
    char path[MAX_PATH_LEN];
    const char *const argv[] = {"ingot-pull", given, NULL};
    posix_spawn_file_actions_t files;
    pid_t pid;
    int ws = 0;
    if (child_find("ingot-pull", path) != ST_OK)
        return cli_fail(command, EXIT_FAILED);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    int error = posix_spawn(&pid, path, &files, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&files);
    if (error) {
        fprintf(stderr, "ingot %s: cannot run %s: %s\n", command, path, strerror(error));
        return EXIT_FAILED;
    }
    while (waitpid(pid, &ws, 0) < 0 && errno == EINTR)
        ; /* Ctrl-C reaches it too, and it ends */
    return WIFEXITED(ws) ? WEXITSTATUS(ws) : EXIT_FAILED;
}

/* given is not in the cache, for the reason of the last failure */
static int not_there(const char *command, const char *given)
{
    fprintf(stderr,
            "ingot %s: there is no file or folder %s, and %s; 'ingot pull %s' downloads it\n",
            command, given, status_text(), given);
    return EXIT_USAGE;
}

int model_find(struct model_place *out, const char *command, const char *given, bool pull)
{
    struct hub_name name;
    out->name = NULL;
    int n = snprintf(out->path, sizeof out->path, "%s", given);
    if (n >= (int)sizeof out->path)
        return cli_usage(command, "the model's path is too long");
    if (access(given, F_OK) == 0)
        return -1;
    if (strcmp(given, "demo-model") == 0)
        return child_find_shared(given, out->path) == ST_OK ? -1 : cli_fail(command, EXIT_FAILED);
    if (hub_name_parse(&name, given) != ST_OK)
        return -1;
    enum status st = find_in_cache(out, &name);
    if (st != ST_OK && pull) {
        int rc = pull_model(command, given);
        if (rc != 0)
            return rc;
        st = find_in_cache(out, &name);
    }
    if (st != ST_OK)
        return not_there(command, given);
    out->name = given;
    return -1;
}

int model_find_argument(struct model_place *out, int argc, char **argv)
{
    if (argc < 2 || argv[1][0] == '-')
        return -1;
    int rc = model_find(out, argv[0], argv[1], false);
    if (rc < 0)
        argv[1] = out->path;
    return rc;
}
