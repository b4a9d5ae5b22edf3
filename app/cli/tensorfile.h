/* tensorfile.h - rows of float32 written to a file that appears whole or not at all. */
#ifndef APP_TENSORFILE_H
#define APP_TENSORFILE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct row_file row_file;

/* Rows go to a temporary name beside `path` (to path itself where that is a device or a pipe). NULL, told on stderr. */
row_file *row_file_open(const char *path, size_t n_columns);
/* Little-endian, one row behind the other. False, told on stderr: it could not be written. */
bool row_file_add(row_file *f, const float *row);
/* The file gets its name. False, told on stderr: it could not. */
bool row_file_keep(row_file *f);
/* Free it; what was not kept is removed. NULL is fine. */
void row_file_drop(row_file *f);

#endif
