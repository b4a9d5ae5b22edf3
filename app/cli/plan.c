/* plan.c - kvtile plan: how much memory, how many users, how long a context, how fast at best; before there is a
 * cache, a machine, or the weights. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "bench.h"
#include "formats.h"
#include "plot/plot.h"

/* ------------------------------------------------------------------------------------------------- the plan */

enum { TOKENS = 8192 }; /* where neither the options nor the model say */

static int sizes_pick(planning *p) {
    const plan_options *o = p->opt;
    capacity_options *c = &p->options;
    c->tokens = o->tokens ? o->tokens : p->shape.context ? p->shape.context : TOKENS;
    if (c->tokens > CAPACITY_MOST) c->tokens = CAPACITY_MOST;
    c->sequences = o->sequences;
    c->answer = o->answer >= 0 ? o->answer : c->tokens / 2;
    c->chunk = o->common.chunk;
    if (c->answer >= c->tokens)
        return cli_usage("plan", "--answer is %d of %lld tokens: the prompt has one at least", o->answer,
                         (long long)c->tokens);
    return CLI_DONE;
}

/* Measuring reads 512 MB, which a machine without them need not be asked for. */
static double bandwidth_measured(void) {
    static const size_t READ = (size_t)1 << 30;
    kvt_workers *team;
    if (sys_memory_free() < READ || kvt_workers_open(&team, 0) != KVT_OK) return 0;
    double rate = bench_bandwidth(team);
    kvt_workers_close(team);
    return rate;
}

static void machine_pick(planning *p) {
    const plan_options *o = p->opt;
    p->memory_given = o->memory > 0;
    p->bandwidth_given = o->bandwidth > 0;
    p->options.memory = p->memory_given ? (double)o->memory : (double)sys_memory_free();
    p->options.bandwidth = p->bandwidth_given ? o->bandwidth : bandwidth_measured();
    p->options.flops = o->flops;
}

static double bits_of(const shape *s, const capacity_bytes *b) {
    int64_t elements = 0;
    for (int i = 0; i < s->n_groups; i++) elements += s->group[i].n_layers * plan_elements(&s->group[i].layer);
    return elements > 0 ? 8 * (double)b->per_token / (double)elements : 0;
}

/* One that cannot be counted is left out; the plan itself was. */
static bool row_fill(plan_row *r, const shape *s, const capacity_options *opt) {
    if (s != &r->shape) r->shape = *s;
    r->options = *opt;
    if (capacity_of(&r->shape, &r->options, &r->is, NULL) != KVT_OK) return false;
    r->bits = bits_of(&r->shape, &r->is.bytes);
    return true;
}

static void rows_fill(planning *p) {
    int n = 0;
    for (int i = 0; (i = format_row_next(i)) >= 0 && p->n_formats < PLAN_FORMATS_MAX; i++) {
        capacity_options opt = p->options;
        plan_row *r = &p->format[p->n_formats];
        format_pair pair = format_pair_at(i);
        opt.k_format = pair.k;
        opt.v_format = pair.v;
        r->name = pair.name;
        p->n_formats += row_fill(r, &p->shape, &opt);
    }
    for (int i = 0; i < p->n_kinds; i++) {
        plan_row *r = &p->kind[n];
        if (n != i) *r = p->kind[i];
        n += row_fill(r, &r->shape, &p->options);
    }
    p->n_kinds = n;
}

int plan_work_out(planning *p) {
    error_text err;
    if (capacity_of(&p->shape, &p->options, &p->is, &err) != KVT_OK) return cli_fail("%s", err.text);
    rows_fill(p);
    return CLI_DONE;
}

/* ------------------------------------------------------------------------------------------------ the command */

static const option option_table[] = {
    OPTION_HEAD("Model"),
    { "-m", "MODEL", OPTION_FILE, offsetof(plan_options, common.model), "a .gguf file, or as --config",
      .files = "gguf json" },
    { "--config", "FILE", OPTION_FILE, offsetof(plan_options, config),
      "a Hugging Face config.json, or the folder that it lies in", .files = "json" },
    { "--name", "NAME", OPTION_TEXT, offsetof(plan_options, name),
      "a known model, such as llama-3-8b; without a name they are listed", .word_at = shape_name },
    { "--layers", "N", OPTION_INT, offsetof(plan_options, layers), "plain numbers: layers", 1, 4096 },
    { "--heads", "N", OPTION_INT, offsetof(plan_options, heads), "query heads", 1, 1024 },
    { "--kv-heads", "N", OPTION_INT, offsetof(plan_options, heads_kv), "key/value heads (default: as --heads)", 1,
      1024 },
    { "--head-dim", "N", OPTION_INT, offsetof(plan_options, dim), "elements of a head", 1, 512 },
    { "--window", "N", OPTION_INT, offsetof(plan_options, window), "tokens that a layer keeps (default: all)", 1,
      1 << 30 },
    { "--as", "mha|gqa:N|mqa|mla", OPTION_TEXTS, offsetof(plan_options, as),
      "as if the attention were of another kind; several times, or all: side by side",
      .word_at = plan_kind_name,
      .more = "The size of the heads stays. mha has a key/value head for each query head, gqa:N has N, mqa one; mla "
              "keeps a latent of 512 and a rotary key of 64, as DeepSeek-V2 does. Layers with a window keep it; as "
              "mla they stay as they are, for no latent has one." },
    { "--weights", "BYTES", OPTION_BYTES, offsetof(plan_options, weights),
      "what the weights take (default: as the model was published)" },
    OPTION_HEAD("Cache"),
    OPTION_FORMATS(plan_options),
    { "--tokens", "N", OPTION_INT, offsetof(plan_options, tokens),
      "tokens of a sequence (default: the model's context, or 8192)", 1, CAPACITY_MOST },
    { "--sequences", "N", OPTION_INT, offsetof(plan_options, sequences), "sequences at once", 1, CAPACITY_MOST },
    { "--answer", "N", OPTION_INT, offsetof(plan_options, answer),
      "of the tokens, those that are answered (default: half of them)", 0, CAPACITY_MOST },
    OPTION_CHUNK(plan_options),
    OPTION_HEAD("Machine"),
    { "--memory", "BYTES", OPTION_BYTES, offsetof(plan_options, memory),
      "what there is, e.g. 80GB; G is a power of 1024, GB of 1000 (default: what this machine has free)" },
    { "--bandwidth", "BYTES/S", OPTION_RATE, offsetof(plan_options, bandwidth),
      "that memory is read at, e.g. 3.35T, in powers of 1000 (default: measured on this machine)" },
    { "--flops", "FLOP/S", OPTION_RATE, offsetof(plan_options, flops),
      "multiplications and additions, e.g. 990T, in powers of 1000: tells how long a prompt takes at least" },
    OPTION_JSON(plan_options),
    { "--explain", NULL, OPTION_FLAG, offsetof(plan_options, explain), "below each number, how it comes about" },
    { "--plot", "FILE", OPTION_FILE, offsetof(plan_options, plot), "a picture of cache against tokens, .svg or .png",
      .files = "svg png" },
    { "--plot-decode", "FILE", OPTION_FILE, offsetof(plan_options, plot_decode),
      "a picture of the time of a token against the tokens before it", .files = "svg png" },
};

static const command_example examples[] = {
    { "plan --name llama-3-8b --sequences 16 --memory 80G", "Do sixteen full contexts fit into 80 GiB?" },
    { "plan --name deepseek-v3 --as all --tokens 32768", "What its latent attention saves." },
    { "plan --config config.json --kv f16 --tokens 32000 --explain", "A model that is not here yet, with formulas." },
    { "plan -m model.gguf --tokens 4096", "A model file on this machine, and the line that runs it." },
    { "plan --name llama-3-70b --bandwidth 3.35T --flops 990T --plot cache.svg", "One accelerator, and a picture." },
};

static void plan_defaults(void *options) {
    *(plan_options *)options =
        (plan_options){ .common = common_options_default(), .sequences = 1, .answer = -1 };
}

static int picture_check(const char *name, const char *path) {
    if (!path || plot_named(path)) return CLI_DONE;
    return cli_usage("plan", "%s %s: a picture's name ends in .svg or .png", name, path);
}

static int pictures(const planning *p) {
    const plan_options *o = p->opt;
    int status = o->plot ? plan_plot_cache(p, o->plot) : CLI_DONE;
    return status == CLI_DONE && o->plot_decode ? plan_plot_decode(p, o->plot_decode) : status;
}

static int plan(planning *p) {
    char advice[8192];
    engine_options e = common_engine_options(&p->opt->common);
    p->options = (capacity_options){ .k_format = e.k_format, .v_format = e.v_format, .block_tokens = e.block_tokens,
                                      .hot_tokens = e.hot_tokens };
    int status = plan_shape(p);
    if (status == CLI_DONE) status = sizes_pick(p);
    if (status != CLI_DONE) return status;
    machine_pick(p);
    status = plan_work_out(p);
    if (status != CLI_DONE) return status;
    if (plan_advice(p, advice, sizeof advice)) p->advice = advice;
    status = p->opt->common.json ? plan_json(p) : plan_print(p);
    return status == CLI_DONE ? pictures(p) : status;
}

static int plan_command(const void *options) {
    const plan_options *o = options;
    int status = picture_check("--plot", o->plot);
    if (status == CLI_DONE) status = picture_check("--plot-decode", o->plot_decode);
    if (status != CLI_DONE) return status;
    planning *p = calloc(1, sizeof *p);
    if (!p) return cli_fail("no memory for a plan");
    p->opt = o;
    status = plan(p);
    free(p);
    return status;
}

const command command_plan = {
    .name = "plan",
    .summary = "how much memory, how many users, how fast at best",
    .usage = "(-m MODEL | --config FILE | --name NAME | --layers N ...) [OPTIONS]",
    .about = "What the cache of a model takes, by layer and by format, what fits into a memory beside the weights, and "
             "how fast a token can be at best. The bytes are those that the library asks for, to the byte.",
    .more = "Floors are what reading the weights and the caches once, and computing each product once, takes at the "
            "rates given: no engine is faster, and most are slower. Weights are the published ones unless --weights "
            "says otherwise; of a config.json alone they are estimated.",
    COMMAND_OPTIONS(option_table),
    COMMAND_EXAMPLES(examples),
    .options_bytes = sizeof(plan_options),
    .defaults = plan_defaults,
    .run = plan_command,
};
