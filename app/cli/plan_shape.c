/* plan_shape.c - kvtile plan: which model a plan is about, from whichever options name it. */
#include "plan.h"

#include <string.h>
#include <sys/stat.h>

#include "known.h"

/* ----------------------------------------------------------------------------------------------- by numbers */

static int by_numbers(planning *p) {
    const plan_options *o = p->opt;
    kvt_layer l = { .n_heads_q = o->heads, .n_heads_kv = o->heads_kv ? o->heads_kv : o->heads, .dim_k = o->dim,
                    .dim_v = o->dim, .window = o->window };
    if (!o->layers) return cli_usage("plan", "--layers is missing, of --layers, --heads and --head-dim");
    if (!o->heads) return cli_usage("plan", "--heads is missing, of --layers, --heads and --head-dim");
    if (!o->dim) return cli_usage("plan", "--head-dim is missing, of --layers, --heads and --head-dim");
    if (l.n_heads_q % l.n_heads_kv != 0)
        return cli_usage("plan", "--heads is %d, no multiple of --kv-heads, %d", l.n_heads_q, l.n_heads_kv);
    if (shape_of_numbers(&p->shape, o->layers, l) != KVT_OK)
        return cli_usage("plan", "a layer of %d heads of %d is not to be had", l.n_heads_q, l.dim_k);
    snprintf(p->shape.name, sizeof p->shape.name, "a model of plain numbers");
    return CLI_DONE;
}

/* ------------------------------------------------------------------------------------------------- by file */

/* A folder, or a file that is no .gguf, is a config.json. */
static bool is_config(const char *path) {
    struct stat st;
    const char *dot = strrchr(path, '.');
    return (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) || (dot && strcmp(dot, ".json") == 0);
}

static int by_config(planning *p, const char *path) {
    error_text err;
    return shape_of_config(&p->shape, path, &err) == KVT_OK ? CLI_DONE : cli_fail("%s", err.text);
}

static int by_file(planning *p) {
    error_text err;
    const char *path = p->opt->common.model;
    if (is_config(path)) return by_config(p, path);
    path = model_path(path);
    if (!path) return CLI_FAILED;
    p->file = path;
    return shape_of_file(&p->shape, path, &err) == KVT_OK ? CLI_DONE : cli_fail("%s", err.text);
}

static bool has_numbers(const plan_options *o) {
    return o->layers || o->heads || o->heads_kv || o->dim || o->window;
}

static int by_any(planning *p) {
    const plan_options *o = p->opt;
    int n = !!o->common.model + !!o->config + !!o->name + has_numbers(o);
    if (n == 0)
        return cli_usage("plan", "a model is wanted: -m FILE.gguf, --config FILE, --layers N --heads N --head-dim N, "
                         "or --name with one of: %s", option_words_of(shape_name).text);
    if (n > 1) return cli_usage("plan", "one of -m, --config, --name and plain numbers, not several");
    if (o->common.model) return by_file(p);
    if (o->config) return by_config(p, o->config);
    return o->name ? known_shape(&p->shape, "plan", o->name) : by_numbers(p);
}

/* ------------------------------------------------------------------------------------------- as other kinds */

/* What --as all puts side by side, and the word for that. */
static const char *const kind_names[] = { "mha", "gqa:8", "mqa", "mla", "all" };
enum { N_KINDS = sizeof kind_names / sizeof kind_names[0] - 1 };

const char *plan_kind_name(int i) {
    return i >= 0 && i <= N_KINDS ? kind_names[i] : NULL;
}

static int kind_add(planning *p, const char *as, bool all) {
    error_text err;
    plan_row *r = &p->kind[p->n_kinds];
    *r = (plan_row){ .name = as, .shape = p->shape };
    if (shape_as(&r->shape, as, &err) == KVT_OK) p->n_kinds++;
    else if (!all) return cli_usage("plan", "--as %s", err.text); /* of all those, whatever divides */
    return CLI_DONE;
}

static int kinds(planning *p) {
    const option_texts *as = &p->opt->as;
    int status = CLI_DONE;
    for (int i = 0; i < as->n && status == CLI_DONE; i++) {
        if (strcmp(as->text[i], "all") != 0) status = kind_add(p, as->text[i], false);
        else if (as->n > 1) status = cli_usage("plan", "--as all is all of them: give it alone");
        else
            for (int k = 0; k < N_KINDS; k++) kind_add(p, kind_names[k], true);
    }
    if (status != CLI_DONE || as->n != 1 || p->n_kinds != 1) return status;
    p->shape = p->kind[0].shape; /* one kind alone is the plan itself */
    p->n_kinds = 0;
    return CLI_DONE;
}

int plan_shape(planning *p) {
    shape mha;
    int status = by_any(p);
    if (status != CLI_DONE) return status;
    if (p->opt->weights) shape_weigh_all(&p->shape, (double)p->opt->weights);
    mha = p->shape;
    capacity_bytes b;
    const capacity_options one = { .k_format = p->options.k_format, .v_format = p->options.v_format,
                                   .block_tokens = p->options.block_tokens };
    if (shape_as(&mha, "mha", NULL) == KVT_OK && capacity_bytes_of(&mha, &one, 1, 1, &b) == KVT_OK)
        p->mha_per_token = (double)b.per_token;
    return kinds(p);
}
