/* Status codes: every fallible function returns one, by value, and the caller must look at it.
 * The text of the failure stays in a thread-local detail, written once at its origin by FAIL and
 * passed up untouched by TRY; whoever handles the failure logs or sends it.  Thread safe. */
#ifndef COMMON_STATUS_H
#define COMMON_STATUS_H

/* Values are on the wire: append only. */
enum status {
    ST_OK = 0,
    ST_NOMEM,       /* out of memory, or out of a budget that was sized at start */
    ST_IO,          /* the operating system refused: file, socket, process */
    ST_FORMAT,      /* outside data is malformed */
    ST_RANGE,       /* a value is outside the allowed range */
    ST_UNSUPPORTED, /* well-formed, but this build cannot do it */
    ST_BUSY,        /* try again later */
    ST_CANCELED,
    ST_TIMEOUT,
    ST_PEER,   /* another process failed or broke the protocol */
    ST_DEVICE, /* the accelerator failed */
    ST_BUG,    /* an invariant of Ingot is broken */
    ST_NOT_FOUND,
    ST_N /* number of codes */
};

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))

/* Sets this thread's detail to "file.c:line: text" and returns code.  The text becomes one line of
 * UTF-8: control characters in it are escaped (common/visible.h). */
MUST_CHECK enum status status_fail(enum status code, const char *file, int line, const char *fmt,
                                   ...) PRINTF_LIKE(4, 5);

/* "range", "unsupported", ...; never NULL. */
const char *status_name(enum status st);

/* This thread's last failure as users are told it: the text alone. */
const char *status_text(void);

/* The same with its origin, "safetensors.c:212: tensor ...": for debug logs and tests. */
const char *status_detail(void);

#define FAIL(code, ...) return status_fail((code), __FILE__, __LINE__, __VA_ARGS__)
#define TRY(expr)                                                                                  \
    do {                                                                                           \
        enum status try_ = (expr);                                                                 \
        if (try_ != ST_OK)                                                                         \
            return try_;                                                                           \
    } while (0)

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
