/* block_store.c - see block_store.h. */
#include "block_store.h"

#include <stdlib.h>
#include <string.h>

static const option block_store_table[] = {
    { "--store", "DIR", OPTION_FILE, offsetof(block_store_options, folder),
      "keep blocks in this folder, and take from it what is known there",
      .more = "A folder that is not there is made. Several processes may use one at once. What is there of another "
              "model, another format or damaged is computed as if it were not." },
    { "--store-size", "BYTES", OPTION_BYTES, offsetof(block_store_options, bytes_max),
      "with --store: what its files may take; those used longest ago leave (default: 8GiB)" },
};
const option_rows rows_block_store = { block_store_table, sizeof block_store_table / sizeof block_store_table[0] };

const char *block_store_folder(char path[PATH_BYTES]) {
    const char *folder = getenv("KVTILE_STORE"), *home = getenv("HOME");
    if (folder && folder[0]) return folder;
    if (!home || !home[0]) return NULL;
    return snprintf(path, PATH_BYTES, "%s/.cache/kvtile/store", home) < PATH_BYTES ? path : NULL;
}

int block_store_options_check(const char *name, const block_store_options *o, const common_options *c) {
    if (!o->folder && o->bytes_max) return cli_usage(name, "--store-size goes with --store");
    if (!o->folder || c->kind == KVT_PAGED) return OPTIONS_GO;
    return cli_usage(name, "--store goes with --cache paged: the others keep no blocks that could be found");
}

/* Called on threads of the library's, too. */
static void hear(void *ctx, kvt_log_level level, const char *message) {
    block_store *s = ctx;
    if (level == KVT_LOG_INFO) return;
    if (!s->open) snprintf(s->said.text, sizeof s->said.text, "%s", message);
    else if (!atomic_flag_test_and_set(&s->told)) cli_warn("%s", message);
}

int block_store_open(block_store *s, const block_store_options *o) {
    const size_t bytes_max = o->bytes_max ? o->bytes_max : (size_t)8 << 30;
    *s = (block_store){ .folder = o->folder, .bytes_max = bytes_max, .told = ATOMIC_FLAG_INIT };
    if (!o->folder) return CLI_DONE;
    kvt_status status = kvt_tier_disk(&s->tier, o->folder, bytes_max, hear, s);
    s->open = true;
    if (status == KVT_OK) return CLI_DONE;
    return s->said.text[0] ? cli_fail("%s", s->said.text) : cli_fail("%s: %s", o->folder, kvt_status_text(status));
}

void block_store_close(block_store *s) {
    kvt_tier_close(s->tier);
    s->tier = NULL;
}

void block_store_give(const block_store *s, engine_options *e) {
    if (!s->tier) return;
    e->tiers = &s->tier;
    e->n_tiers = 1;
}

void block_store_warn_small(const block_store *s, const engine *e) {
    enum { FOLDERS = 65536 }; /* that a store takes before its first block, at most */
    const size_t block = engine_stats(e).bytes_per_token * (size_t)engine_options_of(e)->block_tokens;
    if (s->tier && block + FOLDERS > s->bytes_max)
        cli_warn("the store keeps nothing: a block takes %s, and --store-size is %s", show_bytes((double)block).text,
                 show_bytes((double)s->bytes_max).text);
}
