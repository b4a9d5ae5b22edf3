/* path.h - files by name: the folders on the way to one, and one that appears whole or not at all. */
#ifndef KVT_PATH_H
#define KVT_PATH_H

#include <stdbool.h>
#include <stddef.h>

enum { PATH_BYTES = 4096 };

/* "$XDG_CACHE_HOME/kvtile/NAME", else "~/.cache/kvtile/NAME"; false: neither is set to a folder, or it is too long. */
bool path_cache(const char *name, char out[PATH_BYTES]);

/* Make every folder on the way to a file that is not there yet, for this user alone. */
void path_folders_make(const char *path);

/* Write a file beside its place and rename it. mode as open's. 0, or the errno of what went wrong: then what was there
 * is still there. */
int path_replace(const char *path, const void *bytes, size_t n, unsigned mode);

#endif
