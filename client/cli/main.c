/* ingot: the command. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cli.h"
#include "client/cli/commands.h"

struct command {
    const char *name; /* NULL: a heading */
    int (*run)(int argc, char **argv);
    const char *help;
};

static const struct command commands[] = {
    {NULL, NULL, "Serve"},
    {"serve", cmd_serve, "serve a model on this machine, with as many ranks as you like"},
    {"drain", cmd_drain, "let a server finish what runs, and end"},
    {NULL, NULL, "Ask"},
    {"run", cmd_run, "load a model, answer one request, end"},
    {"chat", cmd_chat, "talk to a model or a server"},
    {"generate", cmd_generate, "send one request to a server; text or lines of JSON"},
    {NULL, NULL, "Look"},
    {"status", cmd_status, "what a server does"},
    {"models", cmd_models, "what a server serves"},
    {"ping", cmd_ping, "whether a server answers, and how fast"},
    {"bench", cmd_bench, "load a server and measure it"},
    {"doctor", cmd_doctor, "whether this machine has what Ingot needs"},
    {NULL, NULL, "Take apart"},
    {"inspect", cmd_inspect, "a model's configuration, tensors and memory on each rank"},
    {"tokenize", cmd_tokenize, "text to token ids"},
    {"detokenize", cmd_detokenize, "token ids to text"},
    {"template", cmd_template, "a conversation to the prompt that the model sees"},
    {"quantize", cmd_quantize, "write a model as a GGUF file with smaller weights"},
    {"replay", cmd_replay, "repeat what a server's journal says"},
    {NULL, NULL, "Other"},
    {"version", cmd_version, "versions of this build"},
    {"help", NULL, "this text, or 'ingot help COMMAND'"},
};

static void print_help(FILE *f)
{
    fprintf(f, "ingot: serves large language models on ranks that share the work\n");
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        const struct command *c = &commands[i];
        if (c->name)
            fprintf(f, "  %s%-12s%s%s\n", cli_sgr(f, 1), c->name, cli_sgr(f, 0), c->help);
        else
            fprintf(f, "\n%s:\n", c->help);
    }
    fprintf(f, "\nFirst steps:\n"
               "  ingot serve deploy/demo-model --tp 2\n"
               "  ingot chat                             (on another terminal)\n"
               "'ingot COMMAND --help' tells more.\n" EXIT_CODES_HELP "\n");
}

static const struct command *find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (commands[i].name && strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static int unknown(const char *name)
{
    const char *names[ARRAY_LEN(commands)];
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (commands[i].name)
            names[n++] = commands[i].name;
    const char *near = options_nearest(name, names, n);
    fputs("ingot: there is no command '", stderr);
    cli_put_name(stderr, name);
    if (near)
        fprintf(stderr, "'; did you mean %s?\n", near);
    else
        fprintf(stderr, "'; 'ingot help' lists them\n");
    return EXIT_USAGE;
}

static int help(int argc, char **argv)
{
    static char dashes[] = "--help";
    if (argc < 3) {
        print_help(stdout);
        return EXIT_OK;
    }
    if (strcmp(argv[2], "--version") == 0)
        return cmd_version(1, argv);
    bool of_help = strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0;
    const struct command *c = find(of_help ? "help" : argv[2]);
    if (!c)
        return unknown(argv[2]);
    if (!c->run) {
        print_help(stdout);
        return EXIT_OK;
    }
    char *args[] = {argv[2], dashes, NULL};
    return c->run(2, args);
}

int main(int argc, char **argv)
{
    const char *no_colour = getenv("NO_COLOR");
    cli_init_colours(no_colour && *no_colour);
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "help") == 0)
        return help(argc, argv);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return help(1, argv);
    if (strcmp(argv[1], "--version") == 0)
        return cmd_version(1, argv);
    const struct command *c = find(argv[1]);
    return c ? c->run(argc - 1, argv + 1) : unknown(argv[1]);
}
