/* folder.h - folders that tests write to and throw away. */
#ifndef TESTS_FOLDER_H
#define TESTS_FOLDER_H

#include <stdint.h>

enum { FOLDER_PATH_MAX = 512 };

/* A new empty folder, below $TMPDIR or /tmp. */
void folder_new(char path[FOLDER_PATH_MAX]);
/* In memory where the system has a place for that: for tests that write much. */
void folder_new_in_memory(char path[FOLDER_PATH_MAX]);
/* And all that is in it. It need not be there. */
void folder_remove(const char *path);
/* What du says: the blocks of all files and folders in it, and its own. */
uint64_t folder_bytes(const char *path);
/* Files and folders in it, on all levels, whose path has this in it. */
int folder_count(const char *path, const char *part);
/* Open descriptors of this process. */
int folder_descriptors(void);

#endif
