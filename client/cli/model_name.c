#include "client/cli/model_name.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "client/cli/commands.h"

static bool is_demo_model(const char *given)
{
    return strcmp(given, "demo-model") == 0;
}

int model_find(struct model_place *out, const char *command, const char *given)
{
    out->name = NULL;
    int n = snprintf(out->path, sizeof out->path, "%s", given);
    if (n >= (int)sizeof out->path)
        return cli_usage(command, "the model's path is too long");
    if (access(given, F_OK) == 0)
        return -1;
    if (is_demo_model(given) && child_find_shared("demo-model", out->path) != ST_OK)
        return cli_fail(command, EXIT_FAILED);
    return -1;
}

int model_find_argument(struct model_place *out, int argc, char **argv)
{
    if (argc < 2 || argv[1][0] == '-')
        return -1;
    int rc = model_find(out, argv[0], argv[1]);
    if (rc < 0)
        argv[1] = out->path;
    return rc;
}
