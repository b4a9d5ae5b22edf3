/* inspect.c - kvtile inspect: what a model file is, and what a token costs in its cache. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#include "formats.h"

enum { BLOCK_TOKENS = 32 }; /* of which scales and centroids are counted: the default */

typedef struct inspect_options {
    common_options common;
    const char *model; /* not by -m */
} inspect_options;

static const option option_table[] = { OPTION_MODEL(inspect_options), OPTION_JSON(inspect_options) };

static const option operand = { "MODEL", NULL, OPTION_FILE, offsetof(inspect_options, model), "the same without -m",
                                .files = "gguf" };

static const command_example examples[] = {
    { "inspect", "The default model." },
    { "inspect model.gguf --json", "Layers, heads and the context of another one, for a program." },
};

static void inspect_defaults(void *options) {
    *(inspect_options *)options = (inspect_options){ .common = common_options_default() };
}

typedef struct described {
    const char *path;
    model_config config;
    model_info info;
    kvt_layer *layers; /* [config.n_layers] */
} described;

/* Rows of the table of formats: the next one from place *i on, and what a token takes in it. */
static bool format_next(const described *d, int *i, format_pair *pair, format_cost *cost) {
    for (; (*i = format_row_next(*i)) >= 0; ++*i) {
        *pair = format_pair_at(*i);
        if (format_cost_of(d->layers, d->config.n_layers, *pair, BLOCK_TOKENS, cost)) return true;
    }
    return false;
}

static void print_position(const model_config *c) {
    static const char *const factors[] = { "", ", a factor for each frequency", ", short and long factors" };
    const rope_config *r = &c->rope;
    printf("  position     rope over %d, base %g%s", r->dim, (double)r->base, factors[r->factors]);
    if (r->scaling != ROPE_PLAIN)
        printf(", %s scaling by %g", r->scaling == ROPE_YARN ? "yarn" : "linear", (double)r->factor);
    if (r->skip == 1) printf(", in no layer");
    if (r->skip > 1) printf(", not in every %dth layer", r->skip);
    printf("; trained on %s tokens", show_count((uint64_t)c->context).text);
    if (r->original != c->context) printf(" (originally %s)", show_count((uint64_t)r->original).text);
    if (c->limit) printf(", here up to %s (%s)", show_count((uint64_t)c->limit).text, c->limit_key);
    putchar('\n');
}

static void print_table(const described *d) {
    const model_config *c = &d->config;
    printf("%s\n", d->path);
    printf("  model        %s (%s), %s weights, %s: %s\n", d->info.name[0] ? d->info.name : "no name", c->arch,
           show_count(d->info.n_weights).text, show_bytes((double)d->info.weights_bytes).text, d->info.types);
    printf("  layers       %d of width %d, feed-forward %d\n", c->n_layers, c->width, c->width_ffn);
    printf("  attention    full; %d query heads, %d key/value heads, keys of %d, values of %d\n", c->n_heads_q,
           c->n_heads_kv, c->dim_k, c->dim_v);
    print_position(c);
    if (d->info.special[0]) printf("  besides      %s\n", d->info.special);
    printf("  vocabulary   %s tokens\n", show_count((uint64_t)c->n_vocab).text);
    format_pair pair;
    format_cost cost;
    for (int i = 0; format_next(d, &i, &pair, &cost); i++)
        printf("  cache %-6s %5.2f bits per element, %6s bytes per token, %s for %s tokens\n", pair.name, cost.bits,
               show_count(cost.bytes_per_token).text, show_bytes((double)cost.bytes_per_token * c->context).text,
               show_count((uint64_t)c->context).text);
}

static json_t *formats_json(const described *d) {
    json_t *list = json_array();
    format_pair pair;
    format_cost cost;
    for (int i = 0; format_next(d, &i, &pair, &cost); i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:f, s:I}", "format", pair.name, "k_format",
                                              kvt_format_name(pair.k), "v_format", kvt_format_name(pair.v),
                                              "bits_per_element", cost.bits, "bytes_per_token",
                                              (json_int_t)cost.bytes_per_token));
    return list;
}

/* By the library's own words, one for keys and values. */
static json_t *bytes_json(const described *d) {
    json_t *bytes = json_object();
    format_cost cost;
    for (int i = 0; format_word(i); i++)
        if (format_cost_of(d->layers, d->config.n_layers, format_pair_at(i), BLOCK_TOKENS, &cost))
            json_object_set_new(bytes, format_word(i), json_integer((json_int_t)cost.bytes_per_token));
    return bytes;
}

/* window: how many tokens a layer keeps; 0: all of them. */
static int print_json(const described *d) {
    json_t *layers = json_array();
    for (int i = 0; i < d->config.n_layers; i++) {
        const kvt_layer *l = &d->layers[i];
        json_array_append_new(layers, json_pack("{s:s, s:i, s:i, s:i, s:i, s:i}", "kind", "full", "n_heads",
                                                l->n_heads_q, "n_heads_kv", l->n_heads_kv, "dim_k", l->dim_k, "dim_v",
                                                l->dim_v, "window", 0));
    }
    return json_print(json_pack(
        "{s:o, s:s, s:i, s:i, s:i, s:I, s:I, s:s, s:i, s:f, s:o, s:o, s:o}", "name",
        json_bytes(d->info.name, strlen(d->info.name)), "arch", d->config.arch, "n_layers", d->config.n_layers,
        "n_vocab", d->config.n_vocab, "context_train", d->config.context, "n_weights", (json_int_t)d->info.n_weights,
        "weights_bytes", (json_int_t)d->info.weights_bytes, "weight_types", d->info.types, "rope_dim",
        d->config.rope.dim, "rope_base", (double)d->config.rope.base, "cache_bytes_per_token", bytes_json(d),
        "cache_formats", formats_json(d), "layers", layers));
}

static int inspect(described *d, const char *path, bool json) {
    error_text err;
    d->path = model_path(path);
    if (!d->path) return CLI_FAILED;
    if (model_describe(d->path, &d->config, &d->info, &err) != KVT_OK) return cli_fail("%s", err.text);
    d->layers = calloc((size_t)d->config.n_layers, sizeof *d->layers);
    if (!d->layers) return cli_fail("no memory for %d layers", d->config.n_layers);
    model_layers(&d->config, d->layers);
    if (json) return print_json(d);
    print_table(d);
    return cli_flush();
}

static int inspect_command(const void *options) {
    const inspect_options *o = options;
    if (o->model && o->common.model) return cli_usage("inspect", "the model is given twice");
    described d = { 0 };
    int status = inspect(&d, o->model ? o->model : o->common.model, o->common.json);
    free(d.layers);
    return status;
}

const command command_inspect = {
    .name = "inspect",
    .summary = "a model file: architecture, layers, cache bytes per token",
    .usage = "[-m MODEL | MODEL] [--json]",
    .about = "What a model file is: architecture, layers, and what a token costs in the cache.",
    .more = "With --json there is one object: name, arch, n_layers, n_vocab, context_train, n_weights, weights_bytes, "
            "weight_types (types of tensors and how many are of each), rope_dim and rope_base, "
            "cache_bytes_per_token by format, cache_formats with format, k_format, v_format, bits_per_element and "
            "bytes_per_token of each row of the table, in blocks of 32, and layers with kind, n_heads, n_heads_kv, "
            "dim_k, dim_v and window of each.",
    COMMAND_OPTIONS(option_table),
    .operand = &operand,
    COMMAND_EXAMPLES(examples),
    .options_bytes = sizeof(inspect_options),
    .defaults = inspect_defaults,
    .run = inspect_command,
};
