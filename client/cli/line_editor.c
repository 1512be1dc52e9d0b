/* The editor with libedit, whose interface of wide characters it uses: the terminal speaks UTF-8. */
#include "client/cli/line_editor.h"

#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "client/cli/cli.h"
#include "client/cli/history_file.h"
#include "client/cli/line_input.h"

enum { IDLE_MS = 200, INPUT_BYTES = 4096 };

#define PASTE_ON "\x1b[?2004h" /* the terminal marks what is pasted: ESC [200~ ... ESC [201~ */
#define PASTE_OFF "\x1b[?2004l"

struct line_editor {
    struct line_editor_config cfg;
    EditLine *el;
    HistoryW *history;
    struct history_file file;
    bool has_file;
    char trouble[512];
    int seen_interrupts;
    enum typed why;                   /* reading ended early: TYPED_MESSAGE: it did not */
    unsigned char input[INPUT_BYTES]; /* read from the terminal, [at, n) not used yet */
    size_t at, n;
    char *message, *last; /* malloc'ed: returned last; put into the history last */
};

const char *line_editor_name(void)
{
    return "libedit";
}

/* ---- signals while a line is edited ---- */

static struct termios usual_mode; /* of the terminal, for a handler that ends the process */
static volatile sig_atomic_t resized, stop_asked;

static void on_resize(int sig)
{
    (void)sig;
    resized = 1;
}

static void on_stop(int sig)
{
    (void)sig;
    stop_asked = 1;
}

/* SIGQUIT and SIGABRT end the process: first the terminal, then the default action. */
static void on_fatal(int sig)
{
    ssize_t n = write(STDOUT_FILENO, PASTE_OFF, sizeof PASTE_OFF - 1);
    (void)n;
    tcsetattr(STDIN_FILENO, TCSANOW, &usual_mode);
    signal(sig, SIG_DFL);
    raise(sig);
}

static const struct {
    int sig;
    void (*handler)(int);
} handled[] = {
    {SIGWINCH, on_resize},
    {SIGTSTP, on_stop},
    {SIGQUIT, on_fatal},
    {SIGABRT, on_fatal},
};

static void catch_signals(struct sigaction before[ARRAY_LEN(handled)])
{
    for (size_t i = 0; i < ARRAY_LEN(handled); i++) {
        struct sigaction sa = {.sa_handler = handled[i].handler};
        sigaction(handled[i].sig, &sa, &before[i]);
    }
}

static void restore_signals(const struct sigaction before[ARRAY_LEN(handled)])
{
    for (size_t i = 0; i < ARRAY_LEN(handled); i++)
        sigaction(handled[i].sig, &before[i], NULL);
}

/* Ctrl-Z: the shell gets the terminal in its usual mode; behind raise() the process goes on. */
static void stop_here(struct line_editor *e)
{
    struct sigaction usual = {.sa_handler = SIG_DFL}, ours;
    stop_asked = 0;
    fputs(PASTE_OFF "\r\n", stdout);
    fflush(stdout);
    el_wset(e->el, EL_PREP_TERM, 0);
    sigaction(SIGTSTP, &usual, &ours);
    raise(SIGTSTP);
    sigaction(SIGTSTP, &ours, NULL);
    el_wset(e->el, EL_PREP_TERM, 1);
    fputs(PASTE_ON, stdout);
    fflush(stdout);
    el_wset(e->el, EL_REFRESH);
}

/* libedit forgets at another size what the screen shows: the line is cleared and drawn again. */
static void draw_anew(struct line_editor *e)
{
    resized = 0;
    el_resize(e->el);
    fputs("\r\x1b[J", stdout);
    el_wset(e->el, EL_REFRESH);
}

/* ---- characters ---- */

static bool line_is_empty(struct line_editor *e)
{
    const LineInfoW *line = el_wline(e->el);
    return line->lastchar == line->buffer;
}

/* What came while nothing was typed; false: reading ends, e->why says how. */
static bool look_around(struct line_editor *e)
{
    if (resized)
        draw_anew(e);
    if (stop_asked)
        stop_here(e);
    if (interrupts() != e->seen_interrupts) {
        e->seen_interrupts++;
        e->why = terminated() ? TYPED_STOPPED : line_is_empty(e) ? TYPED_NOTHING : TYPED_CLEARED;
    } else if (!e->cfg.idle(e->cfg.context)) {
        e->why = TYPED_STOPPED;
    }
    return e->why == TYPED_MESSAGE;
}

/* The next byte, or -1: reading ends, e->why says how. */
static int next_byte(struct line_editor *e)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    while (e->at == e->n) {
        int ready = poll(&p, 1, IDLE_MS);
        if (ready <= 0) {
            if (!look_around(e))
                return -1;
            continue;
        }
        ssize_t n = read(STDIN_FILENO, e->input, sizeof e->input);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0) {
            e->why = TYPED_END;
            return -1;
        }
        e->at = 0;
        e->n = (size_t)n;
    }
    return e->input[e->at++];
}

/* Takes what was typed before the terminal was in the editing mode: there a Ctrl-D is a NUL. */
static void take_typed_ahead(struct line_editor *e)
{
    enum { CTRL_D = 4 };
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    if (e->at < e->n || poll(&p, 1, 0) <= 0)
        return;
    ssize_t n = read(STDIN_FILENO, e->input, sizeof e->input);
    e->at = 0;
    e->n = n > 0 ? (size_t)n : 0;
    for (size_t i = 0; i < e->n; i++)
        if (e->input[i] == '\0')
            e->input[i] = CTRL_D;
}

/* The next character of UTF-8, U+FFFD for bytes that are none; 1, or -1 as above. */
static int next_character(struct line_editor *e, wchar_t *c)
{
    mbstate_t state = {0};
    size_t n = 0;
    bool begun;
    do {
        int byte = next_byte(e);
        if (byte < 0)
            return -1;
        char one = (char)byte;
        begun = n == (size_t)-2;
        n = mbrtowc(c, &one, 1, &state);
    } while (n == (size_t)-2);
    if (n == (size_t)-1) {
        *c = 0xfffd;
        e->at -= begun; /* the byte that broke off a character begins another one */
    }
    return 1;
}

static struct line_editor *editor_of(EditLine *el)
{
    void *e;
    el_wget(el, EL_CLIENTDATA, &e);
    return e;
}

/* For libedit.  Where reading ends it gets the key that ends a line, from any state of its own. */
static int read_character(EditLine *el, wchar_t *c)
{
    struct line_editor *e = editor_of(el);
    if (e->why == TYPED_MESSAGE && next_character(e, c) == 1)
        return 1;
    *c = L'\n';
    return e->why == TYPED_END ? 0 : 1;
}

/* ---- keys of our own ---- */

struct pasted {
    wchar_t *text; /* malloc'ed, NUL-terminated */
    size_t n, max;
    wchar_t before; /* the character that came last */
    bool too_long;
};

/* Room for one more character; not for a message that is too long. */
static void make_room(struct pasted *p)
{
    size_t max = p->n + 1 < p->max ? p->max : p->max ? 2 * p->max : 1024;
    if (p->n == MAX_LINE_BYTES)
        p->too_long = true;
    if (p->too_long || max == p->max)
        return;
    wchar_t *text = realloc(p->text, max * sizeof *text);
    p->too_long = !text;
    if (text) {
        p->text = text;
        p->max = max;
    }
}

/* Without NULs and with \n for each end of a line: terminals send \r, and libedit's mode of the
 * terminal swaps the two. */
static void pasted_add(struct pasted *p, wchar_t c)
{
    bool second = (c == L'\n' && p->before == L'\r') || (c == L'\r' && p->before == L'\n');
    p->before = second ? 0 : c;
    make_room(p);
    if (second || c == L'\0' || p->too_long)
        return;
    p->text[p->n++] = c == L'\r' ? L'\n' : c;
    p->text[p->n] = L'\0';
}

/* Reads to the mark behind what is pasted; false: reading ended before. */
static bool read_pasted(struct line_editor *e, struct pasted *p)
{
    static const wchar_t mark[] = L"\x1b[201~";
    size_t matched = 0;
    wchar_t c;
    while (matched < ARRAY_LEN(mark) - 1) {
        if (next_character(e, &c) < 0)
            return false;
        if (c == mark[matched]) {
            matched++;
            continue;
        }
        for (size_t i = 0; i < matched; i++)
            pasted_add(p, mark[i]);
        matched = c == mark[0]; /* which is nowhere else in the mark */
        if (!matched)
            pasted_add(p, c);
    }
    return true;
}

static unsigned char on_paste(EditLine *el, wint_t key)
{
    struct line_editor *e = editor_of(el);
    struct pasted p = {.text = NULL};
    (void)key;
    bool whole = read_pasted(e, &p);
    if (p.too_long)
        e->why = TYPED_TOO_LONG;
    bool inserted = whole && !p.too_long && p.n && el_winsertstr(el, p.text) == 0;
    free(p.text);
    return inserted ? CC_REFRESH : CC_NORM;
}

static unsigned char on_newline(EditLine *el, wint_t key)
{
    (void)key;
    return el_winsertstr(el, L"\n") == 0 ? CC_REFRESH : CC_ERROR;
}

/* ---- history ---- */

static void no_file(struct line_editor *e)
{
    snprintf(e->trouble, sizeof e->trouble, "%s", status_text());
    if (e->has_file)
        history_file_close(&e->file);
    e->has_file = false;
}

static void enter(struct line_editor *e, const char *text)
{
    size_t n = strlen(text) + 1;
    wchar_t *wide = malloc(n * sizeof *wide);
    HistEventW ev;
    if (wide && mbstowcs(wide, text, n) != (size_t)-1)
        history_w(e->history, &ev, H_ENTER, wide);
    free(wide);
}

static void load_history(struct line_editor *e)
{
    struct history_lines l;
    HistEventW ev;
    history_w(e->history, &ev, H_SETSIZE, HISTORY_MAX);
    history_w(e->history, &ev, H_SETUNIQUE, 1);
    if (!e->cfg.keep_history)
        return;
    e->has_file = true;
    if (history_file_open(&e->file, e->cfg.state, e->cfg.home) != ST_OK ||
        history_file_read(&e->file, &l) != ST_OK) {
        no_file(e);
        return;
    }
    for (size_t i = 0; i < l.n; i++)
        enter(e, l.line[i]);
    if (l.n)
        e->last = strdup(l.line[l.n - 1]);
    history_lines_free(&l);
}

static void remember(struct line_editor *e, const char *text)
{
    if (!text[strspn(text, " \t\n")] || (e->last && strcmp(e->last, text) == 0))
        return;
    free(e->last);
    e->last = strdup(text);
    enter(e, text);
    if (e->has_file && history_file_append(&e->file, text) != ST_OK)
        no_file(e);
}

/* ---- open and close ---- */

static wchar_t *prompt(EditLine *el)
{
    /* what stands between two \1 takes no room on the screen */
    static wchar_t coloured[] = L"\1\x1b[36m\1>\1\x1b[0m\1 ", plain[] = L"> ";
    return editor_of(el)->cfg.colours ? coloured : plain;
}

/* Characters are UTF-8 here, whatever the environment says. */
static enum status choose_locale(void)
{
    static const char *const names[] = {"", "C.UTF-8", "en_US.UTF-8", "UTF-8"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (setlocale(LC_CTYPE, names[i]) && strcmp(nl_langinfo(CODESET), "UTF-8") == 0)
            return ST_OK;
    FAIL(ST_UNSUPPORTED, "there is no UTF-8 locale (LC_CTYPE=C.UTF-8 is one)");
}

static enum status make_editor(struct line_editor *e)
{
    TRY(choose_locale());
    if (tcgetattr(STDIN_FILENO, &usual_mode) != 0)
        FAIL(ST_UNSUPPORTED, "standard input is not a terminal");
    e->el = el_init("ingot", stdin, stdout, stderr);
    e->history = history_winit();
    if (!e->el || !e->history)
        FAIL(ST_UNSUPPORTED, "libedit cannot use this terminal");
    load_history(e);
    el_wset(e->el, EL_CLIENTDATA, e);
    el_wset(e->el, EL_GETCFN, read_character);
    el_wset(e->el, EL_PROMPT_ESC, prompt, L'\1');
    el_wset(e->el, EL_HIST, history_w, e->history);
    el_wset(e->el, EL_EDITOR, L"emacs");
    el_wset(e->el, EL_ADDFN, L"ingot-paste", L"Insert pasted text", on_paste);
    el_wset(e->el, EL_ADDFN, L"ingot-newline", L"Insert a newline", on_newline);
    el_source(e->el, NULL); /* the user's .editrc */
    el_wset(e->el, EL_BIND, L"\\e[200~", L"ingot-paste", NULL);
    el_wset(e->el, EL_BIND, L"\\e\\r", L"ingot-newline", NULL);
    el_wset(e->el, EL_BIND, L"\\e\\n", L"ingot-newline", NULL);
    el_wset(e->el, EL_BIND, L"^R", L"em-inc-search-prev", NULL);
    el_wset(e->el, EL_BIND, L"^W", L"ed-delete-prev-word", NULL);
    return ST_OK;
}

enum status line_editor_open(struct line_editor **out, const struct line_editor_config *cfg)
{
    struct line_editor *e = calloc(1, sizeof *e);
    *out = NULL;
    if (!e)
        FAIL(ST_NOMEM, "no memory for the line editor");
    e->cfg = *cfg;
    enum status st = make_editor(e);
    if (st != ST_OK) {
        line_editor_close(e);
        return st;
    }
    *out = e;
    return ST_OK;
}

const char *line_editor_trouble(const struct line_editor *e)
{
    return *e->trouble ? e->trouble : NULL;
}

void line_editor_close(struct line_editor *e)
{
    if (!e)
        return;
    if (e->has_file)
        history_file_close(&e->file);
    if (e->history)
        history_wend(e->history);
    if (e->el)
        el_end(e->el);
    free(e->message);
    free(e->last);
    free(e);
}

/* ---- reading ---- */

/* The line as UTF-8 into e->message, without newlines at its end. */
static enum typed take_message(struct line_editor *e, const wchar_t *line)
{
    size_t n = wcstombs(NULL, line, 0);
    if (n == (size_t)-1 || n > MAX_LINE_BYTES)
        return TYPED_TOO_LONG;
    char *message = realloc(e->message, n + 1);
    if (!message)
        return TYPED_TOO_LONG;
    e->message = message;
    wcstombs(message, line, n + 1);
    while (n && message[n - 1] == '\n')
        message[--n] = '\0';
    remember(e, message);
    return TYPED_MESSAGE;
}

enum typed line_editor_read(struct line_editor *e, char **message)
{
    struct sigaction before[ARRAY_LEN(handled)];
    int n;
    if (e->why != TYPED_NOTHING && e->why != TYPED_CLEARED)
        e->seen_interrupts = interrupts(); /* else a further Ctrl-C may have come already */
    e->why = TYPED_MESSAGE;
    catch_signals(before);
    fputs(PASTE_ON, stdout);
    fflush(stdout);
    el_wset(e->el, EL_PREP_TERM, 1);
    take_typed_ahead(e);
    const wchar_t *line = el_wgets(e->el, &n);
    fputs(PASTE_OFF, stdout);
    fflush(stdout);
    restore_signals(before);
    if (e->why == TYPED_MESSAGE && (!line || n <= 0))
        e->why = TYPED_END;
    if (e->why == TYPED_MESSAGE)
        e->why = take_message(e, line);
    *message = e->message;
    return e->why;
}
