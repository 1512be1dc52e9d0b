/* Text from outside (names, ids, messages of a peer, file names) as it may be shown on a terminal or
 * in a log line: control characters and bytes that are not UTF-8 become escapes, \n, \t, \x1b or,
 * for U+0080 to U+009F, \u009b; so do characters that end lines, change the direction of the text or are
 * not seen, \u202e.  A backslash stays.  Pure. */
#ifndef COMMON_VISIBLE_H
#define COMMON_VISIBLE_H

#include <stddef.h>

enum { VISIBLE_SIZE = 6 };

/* The first character of s [n bytes, n > 0]: writes it or its escape to out and returns the bytes
 * written; *used is the number of bytes of s that it stands for. */
size_t visible_char(const char *s, size_t n, size_t *used, char out[VISIBLE_SIZE]);

/* All of s [n bytes], NUL-terminated, cut between two characters where out [size > 0 bytes] ends;
 * returns the bytes written before the NUL. */
size_t visible_text(char *out, size_t size, const char *s, size_t n);

#endif
