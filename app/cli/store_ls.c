/* store_ls.c - kvtile store ls: what a store holds, space by space. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "store.h"

typedef struct ls_options {
    common_options common;
    const char *folder;
} ls_options;

static const option option_table[] = { OPTION_JSON(ls_options) };

static const option operand = { "DIR", NULL, OPTION_FILE, offsetof(ls_options, folder), "the folder of the store" };

static const command_example examples[] = {
    { "store ls", "What the default store holds." },
    { "store ls /var/cache/kvtile --json", "Another one, for a program." },
};

static void ls_defaults(void *options) {
    *(ls_options *)options = (ls_options){ .common = common_options_default() };
}

/* What the record about a space says; an empty text where it is not there or cannot be read. */
static void about_read(const store *s, const store_space *space, kvt_record_info *out) {
    *out = (kvt_record_info){ 0 };
    if (!space->about || kvt_tier_verify(s->tier, space->about, out) != KVT_OK) out->about[0] = 0;
    text_one_line(out->about);
}

static void time_text(uint64_t ns, char *out, size_t n) {
    const time_t seconds = (time_t)(ns / 1000000000u);
    struct tm parts;
    if (!localtime_r(&seconds, &parts) || !strftime(out, n, "%Y-%m-%d %H:%M", &parts)) out[0] = 0;
}

static int print_table(const store *s) {
    printf("%-12s %11s %9s  %-16s  %s\n", "space", "records", "size", "last used", "what");
    for (size_t i = 0; i < s->n_spaces; i++) {
        const store_space *space = &s->spaces[i];
        kvt_record_info info;
        char used[32];
        about_read(s, space, &info);
        time_text(space->used_ns, used, sizeof used);
        printf("%-12s %11s %9s  %-16s  %s\n", hex_of(space->name, HEX_SHORT).text, show_count(space->n_records).text,
               show_bytes((double)space->bytes).text, used, info.about[0] ? info.about : "?");
    }
    printf("%-12s %11s %9s  %s\n", "all", show_count(s->n_records).text, show_bytes((double)s->bytes).text, s->folder);
    return cli_flush();
}

static int print_json(const store *s) {
    json_t *spaces = json_array();
    for (size_t i = 0; i < s->n_spaces; i++) {
        const store_space *space = &s->spaces[i];
        kvt_record_info info;
        about_read(s, space, &info);
        json_array_append_new(
            spaces, json_pack("{s:s, s:o, s:I, s:I, s:I}", "space", hex_of(space->name, 32).text, "about",
                              info.about[0] ? json_bytes(info.about, strlen(info.about)) : json_null(), "records",
                              (json_int_t)space->n_records, "bytes", (json_int_t)space->bytes, "last_used",
                              (json_int_t)(space->used_ns / 1000000000u)));
    }
    return json_print(json_pack("{s:o, s:I, s:I, s:o}", "folder", json_bytes(s->folder, strlen(s->folder)), "records",
                                (json_int_t)s->n_records, "bytes", (json_int_t)s->bytes, "spaces", spaces));
}

static int ls(const void *options) {
    const ls_options *o = options;
    store s;
    int status = store_open(&s, o->folder);
    if (status == CLI_DONE) status = o->common.json ? print_json(&s) : print_table(&s);
    store_close(&s);
    return status;
}

const command command_store_ls = {
    .name = "store ls",
    .summary = "what it holds, space by space",
    .usage = "[DIR] [--json]",
    .about = "List what a store holds: for each space its records, what they take on the disk, when one of its blocks "
             "was last used, and what it is made of (layers, formats, tokens of a block).",
    .more = "In the JSON object `last_used` is in seconds since 1970, and a space has all 64 digits of its name.",
    COMMAND_OPTIONS(option_table),
    .operand = &operand,
    COMMAND_EXAMPLES(examples),
    .options_bytes = sizeof(ls_options),
    .defaults = ls_defaults,
    .run = ls,
};
