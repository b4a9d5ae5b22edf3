/* store.c - kvtile store: the family of commands on a store, and what they share. */
#include "store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "block_store.h"

const command command_store = {
    .name = "store",
    .summary = "look after a folder of kept blocks",
    .usage = "ACTION [DIR] [OPTIONS]",
    .about = "Look after a store: the folder in which --store keeps the keys and values of full blocks, so that "
             "another process need not compute them again. Without DIR it is $KVTILE_STORE, else "
             "~/.cache/kvtile/store.",
    .more = "Blocks whose bytes have the same meaning are a space: those of one model in one format. A space is named "
            "by the first digits of its hash. Other processes may go on using the store meanwhile: what they miss, "
            "they compute.",
};

hex_text hex_of(const uint8_t *bytes, int n) {
    static const char digits[] = "0123456789abcdef";
    hex_text out;
    for (int i = 0; i < n; i++) {
        out.text[2 * i] = digits[bytes[i] >> 4];
        out.text[2 * i + 1] = digits[bytes[i] & 15];
    }
    out.text[2 * n] = 0;
    return out;
}

/* -------------------------------------------------------------------------------------------- the folder */

/* The library would make one; here nothing but a store will do. */
static int folder_check(const char *folder) {
    char marker[4096];
    struct stat st;
    if (!folder) return cli_fail("no store: neither KVTILE_STORE nor HOME says where it is (DIR names one)");
    if (stat(folder, &st) != 0) return cli_fail("%s: %s", folder, strerror(errno));
    if (!S_ISDIR(st.st_mode)) return cli_fail("%s: is a file, the folder of a store is wanted", folder);
    int n = snprintf(marker, sizeof marker, "%s/kvtile-store", folder);
    if (n >= (int)sizeof marker) return cli_fail("%s: the name is too long", folder);
    if (stat(marker, &st) == 0) return CLI_DONE;
    return errno == ENOENT ? cli_fail("%s: is no store, the file kvtile-store is not in it", folder)
                           : cli_fail("%s: %s", marker, strerror(errno));
}

static void say(void *ctx, kvt_log_level level, const char *message) {
    store *s = ctx;
    if (level == KVT_LOG_ERROR && !s->told) cli_fail("%s", message);
    if (level == KVT_LOG_ERROR) s->told = true;
    if (level == KVT_LOG_WARN) cli_warn("%s", message);
}

/* --------------------------------------------------------------------------------------------- the list */

typedef struct listing {
    store *store;
    size_t n_max;
} listing;

static kvt_status list_one(void *ctx, const kvt_tier_entry *entry) {
    listing *l = ctx;
    store *s = l->store;
    if (s->n_records == l->n_max) {
        size_t n = l->n_max ? 2 * l->n_max : 1024;
        store_record *more = realloc(s->records, n * sizeof *more);
        if (!more) return KVT_E_MEMORY;
        s->records = more;
        l->n_max = n;
    }
    const kvt_tier_key *key = &entry->key;
    s->records[s->n_records++] =
        (store_record){ .what = *entry, .about = memcmp(key->space, key->name, sizeof key->space) == 0 };
    s->bytes += entry->bytes;
    return KVT_OK;
}

static int by_space(const void *a, const void *b) {
    const store_record *const *x = a, *const *y = b;
    return memcmp((*x)->what.key.space, (*y)->what.key.space, sizeof (*x)->what.key.space);
}

/* When a space was used says the last block: the record about it is read by everybody who looks. */
static void space_add(store_space *space, const store_record *r) {
    space->n_records++;
    space->bytes += r->what.bytes;
    if (r->about) space->about = &r->what;
    else if (r->what.used_ns > space->used_ns) space->used_ns = r->what.used_ns;
}

static kvt_status spaces_list(store *s) {
    if (s->n_records == 0) return KVT_OK;
    store_record **sorted = malloc(s->n_records * sizeof *sorted);
    s->spaces = calloc(s->n_records, sizeof *s->spaces);
    if (!sorted || !s->spaces) {
        free(sorted);
        return KVT_E_MEMORY;
    }
    for (size_t i = 0; i < s->n_records; i++) sorted[i] = &s->records[i];
    qsort(sorted, s->n_records, sizeof *sorted, by_space);
    for (size_t i = 0; i < s->n_records; i++) {
        const uint8_t *name = sorted[i]->what.key.space;
        if (i == 0 || memcmp(name, s->spaces[s->n_spaces - 1].name, 32) != 0)
            memcpy(s->spaces[s->n_spaces++].name, name, 32);
        sorted[i]->space = s->n_spaces - 1;
        space_add(&s->spaces[s->n_spaces - 1], sorted[i]);
    }
    free(sorted);
    for (size_t i = 0; i < s->n_spaces; i++)
        if (s->spaces[i].used_ns == 0 && s->spaces[i].about) s->spaces[i].used_ns = s->spaces[i].about->used_ns;
    return KVT_OK;
}

int store_open(store *s, const char *folder) {
    *s = (store){ 0 };
    s->folder = folder ? folder : block_store_folder(s->path);
    if (folder_check(s->folder) != CLI_DONE) return CLI_FAILED;
    listing all = { .store = s };
    kvt_status status = kvt_tier_disk(&s->tier, s->folder, UINT64_MAX, say, s);
    if (status == KVT_OK) status = kvt_tier_walk(s->tier, list_one, &all);
    if (status == KVT_OK) status = spaces_list(s);
    if (status == KVT_OK) return CLI_DONE;
    return s->told ? CLI_FAILED : cli_fail("%s: %s", s->folder, kvt_status_text(status));
}

void store_close(store *s) {
    kvt_tier_close(s->tier);
    free(s->records);
    free(s->spaces);
}

/* ---------------------------------------------------------------------------------------------- removing */

void store_remove(store *s, const store_record *r) {
    kvt_tier_drop(s->tier, &r->what.key);
    store_space *space = &s->spaces[r->space];
    space->n_records--;
    space->bytes -= r->what.bytes;
    space->trimmed = true;
    s->bytes -= r->what.bytes;
    s->bytes_removed += r->what.bytes;
    s->n_removed++;
}

int store_tell_removed(const store *s, bool json) {
    const size_t n_left = s->n_records - s->n_removed;
    if (s->told) return CLI_FAILED;
    if (json)
        return json_print(json_pack("{s:o, s:I, s:I, s:I, s:I}", "folder",
                                    json_bytes(s->folder, strlen(s->folder)), "removed", (json_int_t)s->n_removed,
                                    "bytes_removed", (json_int_t)s->bytes_removed, "records", (json_int_t)n_left,
                                    "bytes", (json_int_t)s->bytes));
    printf("%s: removed %s, %s; %s, %s, left\n", s->folder, show_counted(s->n_removed, "record").text,
           show_bytes((double)s->bytes_removed).text, show_counted(n_left, "record").text,
           show_bytes((double)s->bytes).text);
    return cli_flush();
}
