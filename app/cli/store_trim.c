/* store_trim.c - kvtile store trim: what was used least recently leaves, until size or age is as wanted. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store.h"

typedef struct trim_options {
    common_options common;
    const char *folder;
    size_t size;    /* 0: not given */
    uint64_t older; /* nanoseconds; 0: not given */
} trim_options;

static const option option_table[] = {
    { "--size", "BYTES", OPTION_BYTES, offsetof(trim_options, size), "what may stay, e.g. 512M, 4GiB" },
    { "--older", "TIME", OPTION_TIME, offsetof(trim_options, older), "what leaves anyway, e.g. 12h, 7d" },
    OPTION_JSON(trim_options),
};

static const option operand = { "DIR", NULL, OPTION_FILE, offsetof(trim_options, folder), "the folder of the store" };

static const command_example examples[] = {
    { "store trim --size 4GiB", "Until no more than that is left." },
    { "store trim /var/cache/kvtile --older 7d", "What nobody has used for a week." },
};

static void trim_defaults(void *options) {
    *(trim_options *)options = (trim_options){ .common = common_options_default() };
}

typedef struct limits {
    uint64_t bytes_max, used_ns_least;
} limits;

static limits limits_of(const trim_options *o) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const uint64_t ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    return (limits){ .bytes_max = o->size ? o->size : UINT64_MAX,
                     .used_ns_least = o->older && o->older < ns ? ns - o->older : 0 };
}

static bool leaves(const store *s, const store_record *r, const limits *l) {
    return s->bytes > l->bytes_max || r->what.used_ns < l->used_ns_least;
}

/* Blocks first. What is said about a space stays as long as there is one. */
static void trim_all(store *s, const limits *l) {
    for (size_t i = 0; i < s->n_records; i++)
        if (!s->records[i].about && leaves(s, &s->records[i], l)) store_remove(s, &s->records[i]);
    for (size_t i = 0; i < s->n_records; i++) {
        const store_record *r = &s->records[i];
        const bool alone = s->spaces[r->space].n_records == 1;
        if (r->about && alone && (s->spaces[r->space].trimmed || leaves(s, r, l))) store_remove(s, r);
    }
}

static int trim(const void *options) {
    const trim_options *o = options;
    const limits l = limits_of(o);
    store s;
    if (!o->size && !o->older) return cli_usage("store trim", "--size or --older is wanted");
    int status = store_open(&s, o->folder);
    if (status == CLI_DONE) {
        trim_all(&s, &l);
        status = store_tell_removed(&s, o->common.json);
    }
    store_close(&s);
    return status;
}

const command command_store_trim = {
    .name = "store trim",
    .summary = "remove what was used least recently",
    .usage = "[DIR] [--size BYTES] [--older TIME] [--json]",
    .about = "Remove records from a store, those used least recently first: until no more than --size is left, and all "
             "that nobody has used for as long as --older says.",
    COMMAND_OPTIONS(option_table),
    .operand = &operand,
    COMMAND_EXAMPLES(examples),
    .options_bytes = sizeof(trim_options),
    .defaults = trim_defaults,
    .run = trim,
};
