/* The subcommands of `ingot`: each is a main of its own, argv[0] being the subcommand's name.  They
 * return the exit code. */
#ifndef CLIENT_CLI_COMMANDS_H
#define CLIENT_CLI_COMMANDS_H

/* Documented in `ingot help`. */
enum exit_code {
    EXIT_OK = 0,
    EXIT_FAILED = 1,    /* something went wrong; the message says what */
    EXIT_USAGE = 2,     /* wrong options or arguments */
    EXIT_NO_SERVER = 3, /* no server answers at the endpoint, or it was lost */
    EXIT_REFUSED = 4,   /* the server refused the request, or it ended with an error */
    EXIT_INTERRUPTED = 130,
};

#define EXIT_CODES_HELP                                                                            \
    "Exit codes: 0 done, 1 failure, 2 wrong options or arguments, 3 no server answers or it was\n" \
    "lost, 4 the request was refused or did not end by itself, 130 interrupted."

int cmd_api_key(int argc, char **argv);
int cmd_key(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_chat(int argc, char **argv);
int cmd_detokenize(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_drain(int argc, char **argv);
int cmd_embed(int argc, char **argv);
int cmd_rerank(int argc, char **argv);
int cmd_generate(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_models(int argc, char **argv);
int cmd_served_models(int argc, char **argv); /* without list and remove */
int cmd_ping(int argc, char **argv);
int cmd_pull(int argc, char **argv);
int cmd_quantize(int argc, char **argv);
int cmd_replay(int argc, char **argv);
/* ingot replay recompute */
int recompute_command(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_template(int argc, char **argv);
int cmd_tokenize(int argc, char **argv);
int cmd_version(int argc, char **argv);

#endif
