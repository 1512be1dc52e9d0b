/* ingot: the command. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/child.h"
#include "client/cli/cli.h"
#include "client/cli/commands.h"
#include "common/man_page.h"

struct command {
    const char *name; /* NULL: a heading */
    int (*run)(int argc, char **argv);
    const char *help;
};

static const struct command commands[] = {
    {NULL, NULL, "Serve"},
    {"serve", cmd_serve, "serve a model on this machine, on one rank or several"},
    {"drain", cmd_drain, "let a server finish its requests and end"},
    {"api-key", cmd_api_key, "add, list and remove API keys of the HTTP gateway"},
    {"key", cmd_key, "make keys of connections, and keep the list of those that may connect"},
    {NULL, NULL, "Ask"},
    {"run", cmd_run, "load a model, answer one request, end"},
    {"chat", cmd_chat, "hold a conversation with a model or a server"},
    {"generate", cmd_generate, "send one request to a server; text or lines of JSON"},
    {"embed", cmd_embed, "load a model, print the embeddings of texts, end"},
    {"rerank", cmd_rerank, "load a reranker, print the scores of documents, end"},
    {NULL, NULL, "Observe"},
    {"status", cmd_status, "show the state of a server: requests, worker groups, cache"},
    {"models", cmd_models, "list the models of a server, or list and remove those in the cache"},
    {"ping", cmd_ping, "check that a server answers, and measure how fast"},
    {"bench", cmd_bench, "put load on a server and measure it"},
    {"doctor", cmd_doctor, "check that this machine has everything that Ingot needs"},
    {NULL, NULL, "Models and text"},
    {"pull", cmd_pull, "download a model by its name on the hub"},
    {"inspect", cmd_inspect, "print a model's configuration, tensors and memory on each rank"},
    {"quantize", cmd_quantize, "write a model as a GGUF file with smaller weights"},
    {"tokenize", cmd_tokenize, "print the token ids of a text"},
    {"detokenize", cmd_detokenize, "print the text of token ids"},
    {"template", cmd_template, "print the prompt that the model gets for a conversation"},
    {"replay", cmd_replay, "check a server's journal and show its requests"},
    {NULL, NULL, "Other"},
    {"version", cmd_version, "print the versions of this build"},
    {"help", NULL, "print this text, or 'help COMMAND' that of a command"},
};

#define SUMMARY "Serves large language models on ranks that share the work, and asks them."

static void print_help(FILE *f)
{
    fputs("usage: ingot COMMAND [arguments] [options]\n\n" SUMMARY "\n", f);
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        const struct command *c = &commands[i];
        if (c->name)
            fprintf(f, "  %s%-12s%s%s\n", cli_sgr(f, 1), c->name, cli_sgr(f, 0), c->help);
        else
            fprintf(f, "\n%s:\n", c->help);
    }
    const char *ingot = child_own_command();
    fprintf(f,
            "\nFirst steps:\n"
            "  %s serve demo-model --tp 2\n"
            "  %s chat           # on another terminal\n"
            "A model of your own is a folder in HuggingFace layout, a .gguf file or ORG/NAME.\n\n"
            "'%s COMMAND --help' explains a command.\n" EXIT_CODES_HELP "\n",
            ingot, ingot, ingot);
}

/* ingot --help=man */
static void print_man(FILE *f)
{
    man_page_begin(f, "ingot", "COMMAND [arguments] [options]", SUMMARY);
    man_page_section(f, "COMMANDS");
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        const struct command *c = &commands[i];
        if (c->name)
            man_page_item(f, c->name, "", c->help);
        else
            man_page_subsection(f, c->help);
    }
    man_page_epilog(f, "ingot COMMAND --help explains a command; its manual page is "
                       "ingot-COMMAND(1).\n" EXIT_CODES_HELP);
}

/* ingot --help=options: the commands, as those of a command are its options. */
static void print_commands(FILE *f)
{
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (commands[i].name)
            fprintf(f, "%s\tcommand\t\t%s\n", commands[i].name, commands[i].help);
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
        fprintf(stderr, "'; '%s help' lists them\n", child_own_command());
    return EXIT_USAGE;
}

static int help_of_all(enum option_help form)
{
    if (form == HELP_MAN)
        print_man(stdout);
    else if (form == HELP_OPTIONS)
        print_commands(stdout);
    else
        print_help(stdout);
    return EXIT_OK;
}

static int help(int argc, char **argv)
{
    static char dashes[] = "--help";
    if (argc < 3)
        return help_of_all(HELP_TEXT);
    if (strcmp(argv[2], "--version") == 0)
        return cmd_version(1, argv);
    bool of_help = strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0;
    const struct command *c = find(of_help ? "help" : argv[2]);
    if (!c)
        return unknown(argv[2]);
    if (!c->run)
        return help_of_all(HELP_TEXT);
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
    if (options_help_form(argv[1]) != HELP_NONE)
        return help_of_all(options_help_form(argv[1]));
    if (strcmp(argv[1], "--version") == 0)
        return cmd_version(1, argv);
    const struct command *c = find(argv[1]);
    return c ? c->run(argc - 1, argv + 1) : unknown(argv[1]);
}
