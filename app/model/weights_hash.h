/* weights_hash.h - the hash of a file's tensors: names, types, shapes and bytes. It reads the whole file, so it is
 * computed once and kept in a small file of its own, $XDG_CACHE_HOME/kvtile/weights/ (~/.cache) and the hash of the
 * path, for as long as the file's stamp stays. */
#ifndef APP_WEIGHTS_HASH_H
#define APP_WEIGHTS_HASH_H

#include "digest.h"
#include "file/file.h"

/* Of the file of this real path, which had this stamp when it was loaded. KVT_E_STATE: it has changed since; else as
 * file_open. A hash that cannot be kept is computed again the next time. */
kvt_status weights_hash(const char *path, file_stamp stamp, uint8_t out[DIGEST_BYTES], error_text *err);

#endif
