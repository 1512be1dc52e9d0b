/* ingot: the command. */
#include <stdio.h>
#include <string.h>

#include "client/cli/commands.h"
#include "common/status.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    {"serve", cmd_serve, "serve a model on this machine"},
};

static void print_help(FILE *f)
{
    fprintf(f, "ingot: serves large language models on ranks that share the work\n\n");
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        fprintf(f, "  %-12s %s\n", commands[i].name, commands[i].help);
    fprintf(f, "\n'ingot COMMAND --help' tells more.\n");
}

int main(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(argc < 2 ? stderr : stdout);
        return argc < 2 ? EXIT_USAGE : EXIT_OK;
    }
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "ingot: there is no command '%s' (see ingot --help)\n", argv[1]);
    return EXIT_USAGE;
}
