/* A manual page in the roff language with the man macros (man(7)), in the order of its parts.  Texts
 * are plain: everything that roff would read as a command is escaped.  Pure but for writing f. */
#ifndef COMMON_MAN_PAGE_H
#define COMMON_MAN_PAGE_H

#include <stdio.h>

/* The page of a command, "ingot serve" for example: title, NAME and SYNOPSIS.  Of the summary the
 * first sentence goes into NAME, the whole into DESCRIPTION. */
void man_page_begin(FILE *f, const char *command, const char *usage, const char *summary);

void man_page_section(FILE *f, const char *title);
void man_page_subsection(FILE *f, const char *title);

/* "--name ARG" (arg may be ""), then its text, indented. */
void man_page_item(FILE *f, const char *name, const char *arg, const char *text);

/* The text behind the options of --help: lines under "Examples:" and other indented lines stay as
 * they are, the rest becomes paragraphs. */
void man_page_epilog(FILE *f, const char *text);

#endif
