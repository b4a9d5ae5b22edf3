/* store.h - what the commands on a store share: finding the folder, and all that is in it. */
#ifndef APP_STORE_H
#define APP_STORE_H

#include "base/path.h"
#include "cli.h"

extern const command command_store, command_store_ls, command_store_verify, command_store_trim, command_store_rm;

typedef struct store_record {
    kvt_tier_entry what;
    size_t space; /* its place in store.spaces */
    bool about;   /* what the others of its space have in common */
} store_record;

typedef struct store_space {
    uint8_t name[32];
    size_t n_records; /* that are left, the one about it included */
    uint64_t bytes, used_ns;
    bool trimmed; /* something was removed */
    const kvt_tier_entry *about; /* NULL: not there */
} store_space;

typedef struct store {
    const char *folder;
    char path[PATH_BYTES]; /* of the folder, where nobody named it */
    kvt_tier *tier;
    store_record *records; /* [n_records], the least recently used first */
    size_t n_records;
    store_space *spaces; /* [n_spaces], by name */
    size_t n_spaces;
    uint64_t bytes; /* of all that are left */
    size_t n_removed;
    uint64_t bytes_removed;
    bool told; /* the library has said what is wrong */
} store;

/* Open the store in that folder (NULL: $KVTILE_STORE, else ~/.cache/kvtile/store) and list what is in it; nothing is
 * made. CLI_DONE, or CLI_FAILED told on stderr. Then store_close. */
int store_open(store *s, const char *folder);
void store_close(store *s);

/* Take a record out of the store and out of the counts. */
void store_remove(store *s, const store_record *r);
/* What was removed and what is left, as prose or JSON; the exit status. */
int store_tell_removed(const store *s, bool json);

/* The first n bytes of a name in hex digits, at most 32. */
typedef struct hex_text {
    char text[65];
} hex_text;
hex_text hex_of(const uint8_t *bytes, int n);
enum { HEX_SHORT = 6 }; /* bytes of a name that people are shown */

#endif
