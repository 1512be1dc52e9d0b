/* The files of page/, made a part of the program by cmake/embed.cmake. */
#ifndef CLIENT_GATEWAY_PAGE_FILES_H
#define CLIENT_GATEWAY_PAGE_FILES_H

#include <stddef.h>

extern const unsigned char page_html[], page_css[], page_script[];
extern const size_t page_html_size, page_css_size, page_script_size;

#endif
