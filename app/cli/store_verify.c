/* store_verify.c - kvtile store verify: every record read, and checked by its checksums. */
#include <stdlib.h>
#include <string.h>

#include "store.h"

typedef struct verify_options {
    common_options common;
    const char *folder;
    bool rm;
} verify_options;

static const option option_table[] = {
    { "--rm", NULL, OPTION_FLAG, offsetof(verify_options, rm), "remove what is bad" },
    OPTION_JSON(verify_options),
};

static const option operand = { "DIR", NULL, OPTION_FILE, offsetof(verify_options, folder), "the folder of the store" };

static const command_example examples[] = {
    { "store verify", "Is all of the default store whole?" },
    { "store verify /var/cache/kvtile --rm", "Remove what is not." },
};

static void verify_defaults(void *options) {
    *(verify_options *)options = (verify_options){ .common = common_options_default() };
}

typedef struct verdicts {
    size_t n_read, n_bad, n_other; /* other: of another version */
    json_t *bad;                   /* NULL: told as they come */
} verdicts;

/* What is wrong with a record, for its status; NULL: nothing, as far as can be told. One that another process has
 * removed meanwhile is a KVT_MISS. */
static const char *complaint(kvt_status status) {
    switch (status) {
    case KVT_E_CORRUPT: return "damaged, or not the record of its name";
    case KVT_E_IO: return "cannot be read";
    case KVT_E_MEMORY: return "no memory to read it";
    default: return NULL;
    }
}

static void tell_bad(verdicts *v, const kvt_tier_key *key, const char *what) {
    v->n_bad++;
    if (v->bad)
        json_array_append_new(v->bad, json_pack("{s:s, s:s, s:s}", "space", hex_of(key->space, 32).text, "name",
                                                hex_of(key->name, 32).text, "what", what));
    else printf("space %s record %s: %s\n", hex_of(key->space, HEX_SHORT).text, hex_of(key->name, 32).text, what);
}

static void verify_all(store *s, bool rm, verdicts *v) {
    progress bar = progress_of("verifying");
    for (; v->n_read < s->n_records && !cli_stop; v->n_read++) {
        const store_record *r = &s->records[v->n_read];
        kvt_record_info info;
        progress_show(&bar, (int64_t)v->n_read, (int64_t)s->n_records);
        kvt_status status = kvt_tier_verify(s->tier, &r->what, &info);
        if (status == KVT_E_UNSUPPORTED) v->n_other++;
        const char *what = complaint(status);
        if (!what) continue;
        progress_clear(&bar);
        tell_bad(v, &r->what.key, what);
        if (rm && status != KVT_E_MEMORY) store_remove(s, r);
    }
    progress_clear(&bar);
}

static void tell(const store *s, const verdicts *v) {
    printf("%s: %s read, %s bad", s->folder, show_counted(v->n_read, "record").text,
           v->n_bad ? show_count(v->n_bad).text : "none");
    if (s->n_removed) printf(", %s removed", show_count(s->n_removed).text);
    if (v->n_other) printf("; %s of another version not checked", show_counted(v->n_other, "record").text);
    putchar('\n');
}

static int tell_json(const store *s, const verdicts *v) {
    return json_print(json_pack("{s:o, s:I, s:I, s:I, s:I, s:O}", "folder", json_bytes(s->folder, strlen(s->folder)),
                                "records", (json_int_t)s->n_records, "verified", (json_int_t)v->n_read,
                                "other_versions", (json_int_t)v->n_other, "removed", (json_int_t)s->n_removed, "bad",
                                v->bad));
}

static int verify(const void *options) {
    const verify_options *o = options;
    store s;
    verdicts v = { .bad = o->common.json ? json_array() : NULL };
    int status = store_open(&s, o->folder);
    if (status == CLI_DONE) {
        cli_catch_interrupt();
        verify_all(&s, o->rm, &v);
        if (!v.bad) tell(&s, &v);
        status = v.bad ? tell_json(&s, &v) : cli_flush();
        if (v.n_bad || s.told) status = CLI_FAILED;
        if (cli_stop) status = CLI_INTERRUPTED;
    }
    json_decref(v.bad);
    store_close(&s);
    return status;
}

const command command_store_verify = {
    .name = "store verify",
    .summary = "read and check every record",
    .usage = "[DIR] [OPTIONS]",
    .about = "Read every record of a store and check it by its checksums and its name. Says which are bad; the exit "
             "status is 1 if one is, removed or not.",
    .more = "A cache checks what it reads anyway, and computes again what is bad. Records of another version are not "
            "checked, and not bad. Reading is use: the order in which records would leave stays as it is, but all of "
            "them have been used just now.",
    COMMAND_OPTIONS(option_table),
    .operand = &operand,
    COMMAND_EXAMPLES(examples),
    .options_bytes = sizeof(verify_options),
    .defaults = verify_defaults,
    .run = verify,
};
