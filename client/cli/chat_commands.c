/* The commands of a conversation: lines that begin with a slash. */
#include <stdlib.h>
#include <string.h>

#include "client/cli/chat.h"

#define BLANKS " \t\n"

/* ---- /params ---- */

static void show_params(const struct chat *ch)
{
    struct row_list rows = {.n = 0};
    struct option_result given = {.n_args = 0};
    sampling_rows(&rows, offsetof(struct chat_args, sampling));
    struct option_set set = {.rows = rows.row, .n_rows = rows.n};
    for (size_t i = 0; i < rows.n; i++)
        given.given[i] = true; /* no "(default)" marks: the values are what counts here */
    options_print_effective(stdout, &set, &ch->args, &given);
}

static void change_param(struct chat *ch, char *word)
{
    struct built_request b = {0};
    struct chat_args a;
    size_t n = strcspn(word, "=");
    if (!sampling_has(word, n)) {
        word[n] = '\0';
        fputs("there is no parameter '", stdout);
        cli_put_name(stdout, word);
        puts("'; /params lists them");
        return;
    }
    char *option = malloc(strlen(word) + 3);
    if (!option || ch->n_changes == MAX_CHANGES) {
        puts("too many changes");
        free(option);
        return;
    }
    memcpy(option, "--", 2);
    memcpy(option + 2, word, strlen(word) + 1);
    ch->changes[ch->n_changes++] = option;
    if (chat_parse(ch, &a) && request_sampling(&b, &a.sampling) == ST_OK) {
        ch->args.sampling = a.sampling;
        return;
    }
    printf("%s\n", status_text());
    free(ch->changes[--ch->n_changes]);
}

static void params(struct chat *ch, char *rest)
{
    char *save = NULL;
    if (!*rest)
        show_params(ch);
    for (char *w = strtok_r(rest, BLANKS, &save); w; w = strtok_r(NULL, BLANKS, &save))
        change_param(ch, w);
}

/* ---- the others ---- */

static void help(struct chat *ch, char *rest)
{
    (void)ch;
    (void)rest;
    fputs(CHAT_COMMANDS_HELP, stdout);
}

static void reset(struct chat *ch, char *rest)
{
    (void)rest;
    conversation_cut(&ch->talk, conversation_first(&ch->talk));
    puts("the conversation is forgotten");
}

static void set_system(struct chat *ch, char *rest)
{
    if (conversation_set_system(&ch->talk, *rest ? rest : NULL) != ST_OK)
        puts(status_text());
    else
        puts(*rest ? "the system turn is set" : "there is no system turn");
}

static void set_shift(struct chat *ch, char *rest)
{
    bool on = strcmp(rest, "on") == 0;
    if (*rest && !on && strcmp(rest, "off") != 0) {
        puts("write /shift on or /shift off");
        return;
    }
    if (*rest)
        ch->args.shift = on;
    puts(ch->args.shift ? "when the context is full, the oldest turns leave"
                        : "when the context is full, messages are refused");
}

bool chat_command(struct chat *ch, char *line)
{
    static const struct {
        const char *name;
        void (*run)(struct chat *, char *rest);
    } commands[] = {{"/help", help},
                    {"/params", params},
                    {"/reset", reset},
                    {"/system", set_system},
                    {"/shift", set_shift}};
    size_t n = strcspn(line, BLANKS);
    char *rest = line + n + strspn(line + n, BLANKS);
    line[n] = '\0';
    for (size_t end = strlen(rest); end && strchr(BLANKS, rest[end - 1]);)
        rest[--end] = '\0';
    if (strcmp(line, "/quit") == 0 || strcmp(line, "/exit") == 0)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (strcmp(line, commands[i].name) == 0) {
            commands[i].run(ch, rest);
            return true;
        }
    fputs("there is no command ", stdout);
    cli_put_name(stdout, line);
    puts("; /help lists them");
    return true;
}
