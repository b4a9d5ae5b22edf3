/* bench_needle.c - kvtile bench formats --needle: does the model still find a key in a long text, in each format of the
 * cache?
 *
 * One sequence grows by the filler, and is forked where the next key is hidden: what lies before a key is computed once
 * for all prompts that begin with it. */
#include "bench_formats.h"

#include <stdlib.h>
#include <string.h>

/* Lengths count at which the 16-bit cache finds so many of a hundred keys. */
enum { COUNTED_PERCENT = 80 };

/* What one format found: [length][depth]. */
typedef struct needle_found {
    bool at[OPTION_LIST_MAX][NEEDLE_DEPTHS_MAX];
} needle_found;

typedef struct needle_run {
    const formats_work *work;
    const needle_text *text;
    engine *engine;
    int base; /* the sequence of filler; -1: not begun */
    progress bar;
    int64_t n_total;
} needle_run;

/* ------------------------------------------------------------------------------------------------ one format */

static int64_t positions_of(const needle_text *t) {
    int64_t sum = t->n_cases > 0 ? t->cases[t->n_cases - 1].cut : 0;
    for (int i = 0; i < t->n_cases; i++) sum += t->length[t->cases[i].length] - t->cases[i].cut;
    return sum;
}

static kvt_status steps(needle_run *r) {
    kvt_status status = KVT_OK;
    while (status == KVT_OK && engine_waiting(r->engine) && !cli_stop) {
        status = engine_step(r->engine);
        progress_show(&r->bar, (int64_t)engine_counted(r->engine).positions_computed, r->n_total);
    }
    return status;
}

/* The filler up to `cut`. */
static kvt_status base_grow(needle_run *r, int cut) {
    const needle_text *t = r->text;
    int32_t bos = tokenizer_about(model_tokenizer(r->work->loaded->model))->bos;
    int have = r->base >= 0 ? engine_length(r->engine, r->base) - t->bos : 0;
    kvt_status status = KVT_OK;
    if (r->base < 0 && t->bos) status = engine_add(r->engine, &bos, 1, &r->base);
    else if (r->base < 0 && cut > 0) {
        status = engine_add(r->engine, t->filler.id, cut, &r->base);
        have = cut;
    }
    if (status == KVT_OK && cut > have) status = engine_extend(r->engine, r->base, t->filler.id + have, cut - have);
    return status == KVT_OK ? steps(r) : status;
}

/* The prompt as a sequence of its own. */
static kvt_status prompt_begin(needle_run *r, const needle_case *c, int *out) {
    token_list rest = { 0 };
    kvt_status status = base_grow(r, c->cut);
    if (status == KVT_OK) status = needle_rest(r->text, c, r->work->loaded->model, &rest);
    if (status == KVT_OK && r->base < 0) status = engine_add(r->engine, rest.id, (int)rest.n, out);
    else if (status == KVT_OK) {
        status = engine_fork(r->engine, r->base, out);
        if (status == KVT_OK) status = engine_extend(r->engine, *out, rest.id, (int)rest.n);
    }
    token_list_free(&rest);
    return status == KVT_OK ? steps(r) : status;
}

static kvt_status ask(needle_run *r, const needle_case *c, bool *found, error_text *err) {
    answer a = { 0 };
    int seq = -1;
    generate_options g = { .n_samples = 1, .tokens_max = NEEDLE_ANSWER, .sampling = sample_options_default(),
                           .goes_on = true, .stop = &cli_stop };
    kvt_status status = prompt_begin(r, c, &seq);
    if (status != KVT_OK) snprintf(err->text, sizeof err->text, "%s", kvt_status_text(status));
    else if (!cli_stop) status = generate_on(r->engine, seq, &g, &a, err);
    *found = status == KVT_OK && a.text.n > 0 && memmem(a.text.at, a.text.n, c->key, strlen(c->key));
    answers_free(&a, 1);
    engine_end(r->engine, seq);
    return status;
}

static int format_run(const formats_work *w, const needle_text *t, format_pair pair, needle_found *out) {
    error_text err = { "" };
    char what[64];
    common_options c = formats_common(w->opt, pair);
    engine_options e = common_engine_options(&c);
    needle_run r = { .work = w, .text = t, .base = -1, .n_total = positions_of(t) };
    e.context = t->longest;
    e.rope_context = model_context(model_config_of(w->loaded->model));
    e.sequences_max = 2;
    if (loaded_engine(&r.engine, w->loaded, &e) != CLI_DONE) return CLI_FAILED;
    snprintf(what, sizeof what, "looking for keys in %s", pair.name);
    r.bar = progress_of(what);
    kvt_status status = KVT_OK;
    for (int i = 0; i < t->n_cases && status == KVT_OK && !cli_stop; i++) {
        const needle_case *k = &t->cases[i];
        status = ask(&r, k, &out->at[k->length][k->depth], &err);
    }
    progress_clear(&r.bar);
    engine_close(r.engine);
    if (cli_stop) return CLI_INTERRUPTED;
    return status == KVT_OK ? CLI_DONE : cli_fail("a prompt with a key: %s", err.text);
}

/* -------------------------------------------------------------------------------------------------- telling */

static int found_at(const needle_text *t, const needle_found *f, int length) {
    int n = 0;
    for (int d = 0; d < t->n_depths; d++) n += f->at[length][d];
    return n;
}

/* The format that others are held against: 16 bits, as they come; -1: none of those. */
static int reference_of(const formats_work *w) {
    for (int i = 0; i < w->n_pairs; i++)
        if (w->pair[i].k == w->pair[i].v && (w->pair[i].k == KVT_F16 || w->pair[i].k == KVT_BF16)) return i;
    return -1;
}

static bool counted(const formats_work *w, const needle_text *t, const needle_found *all, int length) {
    int reference = reference_of(w);
    return reference >= 0 && 100 * found_at(t, &all[reference], length) >= COUNTED_PERCENT * t->n_depths;
}

/* Of a format, keys at lengths that count: how many there were. */
static int share_of(const formats_work *w, const needle_text *t, const needle_found *all, int i, int *n_found) {
    int n = 0;
    *n_found = 0;
    for (int l = 0; l < t->n_lengths; l++) {
        if (!counted(w, t, all, l)) continue;
        n += t->n_depths;
        *n_found += found_at(t, &all[i], l);
    }
    return n;
}

static void head_tell(const formats_work *w, const needle_text *t) {
    printf("%s, %d threads; a key of %d digits at %d depths of %s\n%-8s %8s %10s  by depth\n", kvt_cpu(),
           kvt_workers_count(w->loaded->team), NEEDLE_DIGITS, t->n_depths, w->opt->file ? w->opt->file : "a text",
           "format", "tokens", "found");
}

static void format_tell(const needle_text *t, format_pair pair, const needle_found *f) {
    for (int l = 0; l < t->n_lengths; l++) {
        printf("%-8s %8d %4d of %-3d  ", pair.name, t->length[l], found_at(t, f, l), t->n_depths);
        for (int d = 0; d < t->n_depths; d++) putchar(f->at[l][d] ? '#' : '.');
        putchar('\n');
    }
    fflush(stdout);
}

static int summary_tell(const formats_work *w, const needle_text *t, const needle_found *all) {
    int reference = reference_of(w), n_found;
    if (reference < 0) return cli_flush();
    printf("where %s finds %d %% at least:", w->pair[reference].name, COUNTED_PERCENT);
    for (int i = 0; i < w->n_pairs; i++) {
        int n = share_of(w, t, all, i, &n_found);
        printf("%s %s %d of %d", i ? "," : "", w->pair[i].name, n_found, n);
    }
    putchar('\n');
    return cli_flush();
}

static json_t *row_json(const formats_work *w, const needle_text *t, const needle_found *all, int i, int length) {
    json_t *depths = json_array();
    for (int d = 0; d < t->n_depths; d++) json_array_append_new(depths, json_boolean(all[i].at[length][d]));
    return json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:b, s:o}", "format", w->pair[i].name, "k_format",
                     kvt_format_name(w->pair[i].k), "v_format", kvt_format_name(w->pair[i].v), "tokens",
                     t->length[length], "asked", t->n_depths, "found", found_at(t, &all[i], length), "counted",
                     counted(w, t, all, length), "by_depth", depths);
}

static int json_tell(const formats_work *w, const needle_text *t, const needle_found *all) {
    json_t *rows = json_array(), *formats = json_array();
    for (int i = 0; i < w->n_pairs; i++) {
        int n_found, n = share_of(w, t, all, i, &n_found);
        for (int l = 0; l < t->n_lengths; l++) json_array_append_new(rows, row_json(w, t, all, i, l));
        json_array_append_new(formats, json_pack("{s:s, s:i, s:i}", "format", w->pair[i].name, "asked", n, "found",
                                                 n_found));
    }
    json_t *o = bench_json("bench formats", w->loaded->team, w->bandwidth, rows);
    if (o) json_object_set_new(o, "counted", formats);
    return json_print(o);
}

static int all_run(const formats_work *w, const needle_text *t, needle_found *all) {
    bool json = w->opt->common.json;
    int status = CLI_DONE;
    if (!json) head_tell(w, t);
    for (int i = 0; i < w->n_pairs && status == CLI_DONE; i++) {
        status = format_run(w, t, w->pair[i], &all[i]);
        if (status == CLI_DONE && !json) format_tell(t, w->pair[i], &all[i]);
    }
    if (status != CLI_DONE) return status;
    return json ? json_tell(w, t, all) : summary_tell(w, t, all);
}

int needle_bench(const formats_work *w) {
    needle_text text;
    needle_found *all = calloc((size_t)w->n_pairs, sizeof *all);
    int status = needle_text_make(&text, w->opt, w->loaded->model);
    if (status == CLI_DONE) status = all ? all_run(w, &text, all) : cli_fail("no memory for %d formats", w->n_pairs);
    needle_text_free(&text);
    free(all);
    return status;
}
