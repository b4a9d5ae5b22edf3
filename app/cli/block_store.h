/* block_store.h - the folder in which a command keeps blocks: what one process has computed the next one finds. */
#ifndef APP_BLOCK_STORE_H
#define APP_BLOCK_STORE_H

#include <stdatomic.h>

#include "cli.h"

typedef struct block_store_options {
    const char *folder; /* NULL: no store */
    size_t bytes_max;
} block_store_options;

block_store_options block_store_options_default(void);

/* Rows for the table of a command whose struct T has `block_store_options store`. */
extern const option_rows rows_block_store;
#define OPTION_STORE(T) OPTION_ROWS_OF(rows_block_store, T, store)

/* OPTIONS_GO, or CLI_USAGE after telling that the cache of this command has nothing for a store. */
int block_store_options_check(const char *name, const block_store_options *o, const common_options *c);

typedef struct block_store {
    kvt_tier *tier; /* NULL: there is none */
    const char *folder;
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

#endif
