/* ingot-text: what a model's tokenizer and chat template make of a text, without a server. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/build_info.h"
#include "coordinator/tools/text_tool.h"

static const struct {
    const char *name, *what;
    int (*run)(int argc, char **argv, bool colour);
} COMMANDS[] = {
    {"tokenize", "text to token ids", text_tokenize},
    {"detokenize", "token ids to text", text_detokenize},
    {"template", "a conversation to the prompt that the model sees", text_template},
};

static void usage(FILE *f)
{
    fprintf(f, "Usage: ingot-text COMMAND [options]\n\n"
               "Shows what a model's tokenizer and chat template make of a text; no server is "
               "needed.\n\n");
    for (size_t i = 0; i < ARRAY_LEN(COMMANDS); i++)
        fprintf(f, "  %-12s %s\n", COMMANDS[i].name, COMMANDS[i].what);
    fprintf(
        f,
        "\nMODEL is a model directory (tokenizer.json, tokenizer_config.json) or a .gguf file.\n"
        "`ingot-text COMMAND --help` explains a command; `ingot COMMAND` is the same.\n\n"
        "Example:\n  ingot-text tokenize models/Qwen3-0.6B --text 'Hello, world'\n%s\n",
        TEXT_EXIT_CODES);
}

int main(int argc, char **argv)
{
    const char *no_colour = getenv("NO_COLOR");
    bool colour = isatty(STDOUT_FILENO) && !(no_colour && *no_colour);
    if (argc < 2) {
        usage(stderr);
        return TEXT_USAGE;
    }
    for (size_t i = 0; i < ARRAY_LEN(COMMANDS); i++)
        if (strcmp(argv[1], COMMANDS[i].name) == 0)
            return COMMANDS[i].run(argc - 1, argv + 1, colour);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        usage(stdout);
        return TEXT_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        build_info_print(stdout, "ingot-text");
        return TEXT_OK;
    }
    fprintf(stderr, "ingot-text: unknown command '%s'\n\n", argv[1]);
    usage(stderr);
    return TEXT_USAGE;
}
