/* load.c - the model a command works with: which file, opened on a pool, and the options that say how. */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/sys.h"
#include "formats.h"

static const char DEFAULT_MODEL[] = "SmolLM2-135M-Instruct.Q4_1.gguf";

common_options common_options_default(void) {
    return (common_options){ .kv = KVT_BF16, .k = -1, .v = -1, .hot = 1, .block = 1, .chunk = 512 };
}

kvt_math common_math(const common_options *c) {
    static const kvt_math places[] = { KVT_MATH_FAST, KVT_MATH_ACCURATE, KVT_MATH_EXACT };
    return places[c->math];
}

engine_options common_engine_options(const common_options *c) {
    engine_options opt = engine_options_default();
    format_pair pair = format_pair_at(c->kv);
    opt.kind = (kvt_cache_kind)c->kind;
    opt.k_format = c->k >= 0 ? (kvt_format)c->k : pair.k;
    opt.v_format = c->v >= 0 ? (kvt_format)c->v : pair.v;
    opt.hot_tokens = c->hot;
    opt.block_tokens = 16 << c->block;
    opt.cache_bytes = c->cache_bytes;
    opt.math = common_math(c);
    opt.chunk = c->chunk;
    return opt;
}

/* $KVTILE_MODELS/NAME, else ~/.cache/kvtile/models/NAME; NULL: neither is set. */
static const char *default_path(void) {
    static char path[4096];
    const char *folder = getenv("KVTILE_MODELS"), *home = getenv("HOME");
    if (folder && folder[0]) snprintf(path, sizeof path, "%s/%s", folder, DEFAULT_MODEL);
    else if (home && home[0]) snprintf(path, sizeof path, "%s/.cache/kvtile/models/%s", home, DEFAULT_MODEL);
    else return NULL;
    return path;
}

const char *model_path(const char *given) {
    struct stat st;
    const char *path = given ? given : default_path();
    if (!path) {
        cli_fail("no model: neither KVTILE_MODELS nor HOME says where the default one is (-m names another)");
        return NULL;
    }
    if (stat(path, &st) != 0) {
        if (given) cli_fail("%s: %s", path, strerror(errno));
        else cli_fail("%s: %s (`make model` fetches it; -m names another)", path, strerror(errno));
        return NULL;
    }
    if (S_ISDIR(st.st_mode)) {
        cli_fail("%s: is a folder, a .gguf file is wanted", path);
        return NULL;
    }
    return path;
}

int team_open(kvt_workers **out, int n_threads) {
    if (kvt_workers_open(out, n_threads) == KVT_OK) return CLI_DONE;
    return cli_fail("%d threads cannot be had", n_threads ? n_threads : sys_processors());
}

int loaded_open(loaded *l, const common_options *c) {
    error_text err;
    uint64_t start = sys_now_ns();
    *l = (loaded){ 0 };
    l->path = model_path(c->model);
    if (!l->path) return CLI_FAILED;
    if (team_open(&l->team, c->threads) != CLI_DONE) return CLI_FAILED;
    if (model_open(&l->model, l->path, l->team, &err) != KVT_OK) return cli_fail("%s", err.text);
    l->load_ms = (double)(sys_now_ns() - start) / 1e6;
    return CLI_DONE;
}

/* What one sequence takes at its longest, against a --cache-size that is less. */
static int refuse_cache_size(const loaded *l, engine_options opt, const error_text *err) {
    kvt_bytes_info need;
    size_t have = opt.cache_bytes;
    opt.cache_bytes = 0;
    opt.sequences_max = 1;
    if (engine_bytes(l->model, &opt, &need) != KVT_OK || need.bytes_cache <= have) return cli_fail("%s", err->text);
    int n_tokens = opt.context ? opt.context : model_context(model_config_of(l->model));
    return cli_fail("--cache-size %s (%s bytes) is too small: one sequence of %s takes %s (%s bytes)",
                    show_bytes((double)have).text, show_count(have).text,
                    show_counted((uint64_t)n_tokens, "token").text, show_bytes((double)need.bytes_cache).text,
                    show_count(need.bytes_cache).text);
}

int loaded_engine(engine **out, const loaded *l, const engine_options *opt) {
    error_text err;
    kvt_status status = engine_open(out, l->model, l->team, opt, &err);
    if (status == KVT_OK) return CLI_DONE;
    return status == KVT_E_LIMIT && opt->cache_bytes ? refuse_cache_size(l, *opt, &err) : cli_fail("%s", err.text);
}

void loaded_close(loaded *l) {
    model_close(l->model);
    kvt_workers_close(l->team);
}
