/* block_store.h - the folder in which a command keeps blocks: what one process has computed the next one finds. */
#ifndef APP_BLOCK_STORE_H
#define APP_BLOCK_STORE_H

#include <stdatomic.h>

#include "base/path.h"
#include "cli.h"

typedef struct block_store_options {
    const char *folder; /* NULL: no store */
    size_t bytes_max;   /* 0: not given, 8 GiB */
} block_store_options;

/* The folder where none is named: $KVTILE_STORE, else the user's own, spelled into path. NULL: neither is known. */
const char *block_store_folder(char path[PATH_BYTES]);

/* Rows for the table of a command whose struct T has `block_store_options store`. */
extern const option_rows rows_block_store;
#define OPTION_STORE(T) OPTION_ROWS_OF(rows_block_store, T, store)

/* OPTIONS_GO, or CLI_USAGE after telling that the cache of this command has nothing for a store, or that a limit has no
 * store. */
int block_store_options_check(const char *name, const block_store_options *o, const common_options *c);

typedef struct block_store {
    kvt_tier *tier; /* NULL: there is none */
    const char *folder;
    size_t bytes_max;
    bool open;        /* what goes wrong from here on is a warning, */
    atomic_flag told; /* and the first one is enough */
    error_text said;
} block_store;

/* CLI_DONE, or CLI_FAILED told on stderr; without a folder it does nothing. The folder's name outlives the store. */
int block_store_open(block_store *s, const block_store_options *o);
/* After the engine that uses it. */
void block_store_close(block_store *s);
/* Give it to an engine that is to be opened. */
void block_store_give(const block_store *s, engine_options *e);
/* Warn where the limit has no room for a single block of that engine. */
void block_store_warn_small(const block_store *s, const engine *e);

#endif
