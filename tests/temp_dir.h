/* Folders of a test's own that do not outlive it.  Each is locked by the process that made it; what
 * a killed one has left is removed by the next test that makes a folder (tests/temp_dir.py, too).
 */
#ifndef TESTS_TEMP_DIR_H
#define TESTS_TEMP_DIR_H

#include <stdbool.h>

/* "/tmp/ingot-tmp-XXXXXX" into dir [>= 32], until remove or the next reaping after the process's
 * end.  Fails the test when that is not possible. */
void temp_dir_make(char *dir);

/* The folder with everything in it; nothing happens when it is not there. */
void temp_dir_remove(const char *dir);

#endif
