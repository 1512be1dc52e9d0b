/* The subcommands of `ingot`: each is a main of its own, argv[0] being the subcommand's name.  They return the
 * exit code. */
#ifndef CLIENT_CLI_COMMANDS_H
#define CLIENT_CLI_COMMANDS_H

enum exit_code { /* documented in `ingot help` */
    EXIT_OK = 0,
    EXIT_FAILED = 1,     /* something went wrong; the message says what */
    EXIT_USAGE = 2,      /* wrong options or arguments */
    EXIT_NO_SERVER = 3,  /* nobody answers at the endpoint, or the server went away */
    EXIT_REFUSED = 4,    /* the server refused the request, or it ended with an error */
    EXIT_INTERRUPTED = 130,
};

int cmd_serve(int argc, char **argv);

#endif
