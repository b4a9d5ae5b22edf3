/* rope.c - position encoding: the keys that describe it, and the list of frequencies that every way of stretching comes
 * to. A pair i of a head turns by position * f[i], and its cosine and sine are multiplied by the magnitude.
 *
 *     plain     f[i] = base^(-2i / dim)                                                  (Su et al. 2021)
 *     factors   f[i] / factors[i], from a tensor: Llama 3's scaling; LongRoPE's two      (Ding et al. 2024)
 *     linear    f[i] / factor                                                            (Chen et al. 2023)
 *     yarn      between f[i] and f[i] / factor, by how often a pair turns over the original context; the magnitude
 *               grows with the factor                                                    (Peng et al. 2023)
 *
 * Leaves turning to kvtile_ops.h. */
#include "base/log.h"
#include "base/mem.h"
#include "weights.h"

#include <math.h>

/* ------------------------------------------------------------------------------------------------- keys */

/* "longrope" is a name for tensors of factors, which are looked for anyway. Without a type, a factor is linear. */
static kvt_status scaling_read(const key_reader *r, rope_config *rope) {
    char key[KEY_BYTES];
    file_text type = { "linear", 6 };
    if (key_has(r, "rope.scaling.type")) TRY(file_string(r->f, key_of(r, "rope.scaling.type", key), &type, r->err));
    bool old = !key_has(r, "rope.scaling.factor");
    TRY(key_positive(r, old ? "rope.scale_linear" : "rope.scaling.factor", 1, &rope->factor));
    if (file_text_is(type, "yarn")) rope->scaling = ROPE_YARN;
    else if (file_text_is(type, "linear")) rope->scaling = rope->factor == 1 ? ROPE_PLAIN : ROPE_LINEAR;
    else if (file_text_is(type, "none") || file_text_is(type, "longrope")) rope->scaling = ROPE_PLAIN;
    else return file_fail(r->f, r->err, KVT_E_UNSUPPORTED, "%s \"%.*s\" is not offered", key, FILE_SHOW(type));
    if (file_text_is(type, "longrope") && rope->factors != ROPE_FACTORS_TWO)
        return file_fail(r->f, r->err, KVT_E_CORRUPT, "%s is longrope, but there are no rope_factors tensors", key);
    return KVT_OK;
}

/* 0.1 m ln s + 1, what the paper multiplies cosine and sine with for a factor s (section 3.4; m is 1 there). */
static double yarn_magnitude(double m, double s) {
    return s > 1 ? 0.1 * m * kvt_log(s) + 1 : 1;
}

/* Magnitude: of yarn, unless the file names it; and a factor that any kind may have. */
static kvt_status yarn_read(const key_reader *r, rope_config *rope) {
    char key[KEY_BYTES];
    float extent, log_multiplier = 0, named;
    TRY(key_positive(r, "rope.scaling.yarn_ext_factor", 1, &extent));
    if (extent != 1)
        return file_fail(r->f, r->err, KVT_E_UNSUPPORTED, "%s is %g, not 1: not offered",
                         key_of(r, "rope.scaling.yarn_ext_factor", key), (double)extent);
    TRY(key_positive(r, "rope.scaling.yarn_beta_fast", 32, &rope->beta_fast));
    TRY(key_positive(r, "rope.scaling.yarn_beta_slow", 1, &rope->beta_slow));
    if (rope->beta_fast < rope->beta_slow)
        return file_fail(r->f, r->err, KVT_E_CORRUPT, "yarn_beta_fast %g is below yarn_beta_slow %g",
                         (double)rope->beta_fast, (double)rope->beta_slow);
    if (!(rope->base > 1))
        return file_fail(r->f, r->err, KVT_E_CORRUPT, "%s is %g, yarn needs one above 1",
                         key_of(r, "rope.freq_base", key), (double)rope->base);
    if (key_has(r, "rope.scaling.yarn_log_multiplier"))
        TRY(file_f32(r->f, key_of(r, "rope.scaling.yarn_log_multiplier", key), &log_multiplier, r->err));
    if (!(log_multiplier >= 0 && log_multiplier <= 1e6f)) /* 0 stands for none */
        return file_fail(r->f, r->err, KVT_E_CORRUPT, "%s is %g", key, (double)log_multiplier);
    double s = (double)rope->factor, whole = yarn_magnitude(1, s) / yarn_magnitude((double)log_multiplier, s);
    TRY(key_positive(r, "rope.scaling.yarn_attn_factor", (float)whole, &named));
    rope->magnitude *= named;
    if (rope->magnitude > 0 && isfinite(rope->magnitude)) return KVT_OK;
    return file_fail(r->f, r->err, KVT_E_CORRUPT, "rope.scaling.attn_factor times yarn_attn_factor is %g",
                     (double)rope->magnitude);
}

static kvt_status skip_read(const key_reader *r, rope_config *rope) {
    bool on = true;
    rope->skip = r->arch->rope_skip;
    if (r->arch->rope_on) TRY(key_flag(r, r->arch->rope_on, true, &on));
    if (!on) rope->skip = 1;
    return KVT_OK;
}

static rope_factors factors_in(const key_reader *r) {
    char name[TENSOR_NAME_BYTES];
    if (file_tensor_find(r->f, arch_tensor_name(r->arch, TENSOR_ROPE_FREQS, 0, name))) return ROPE_FACTORS_ONE;
    if (file_tensor_find(r->f, arch_tensor_name(r->arch, TENSOR_ROPE_LONG, 0, name))) return ROPE_FACTORS_TWO;
    return ROPE_FACTORS_NONE;
}

kvt_status rope_read(const key_reader *r, model_config *c) {
    rope_config *rope = &c->rope;
    rope->halves = r->arch->rope_halves;
    rope->factors = factors_in(r);
    TRY(key_positive(r, "rope.freq_base", 10000.0f, &rope->base));
    TRY(key_int(r, "rope.dimension_count", 2, c->dim_k, c->dim_k, &rope->dim));
    if (rope->dim % 2 != 0)
        return file_fail(r->f, r->err, KVT_E_CORRUPT, "rope turns %d elements, an odd number", rope->dim);
    TRY(key_int(r, "rope.scaling.original_context_length", 1, 1 << 24, c->context, &rope->original));
    TRY(key_positive(r, "rope.scaling.attn_factor", 1, &rope->magnitude));
    TRY(scaling_read(r, rope));
    if (rope->scaling == ROPE_YARN) TRY(yarn_read(r, rope));
    return skip_read(r, rope);
}

/* ------------------------------------------------------------------------------------------- frequencies */

static double between(double x, double least, double most) {
    return x < least ? least : x > most ? most : x;
}

/* The pair that makes n turns over the original context, as a number among the pairs (Peng et al. 2023, section
 * 3.2). */
static double pair_of_turns(const rope_config *rope, double n) {
    const double two_pi = 6.283185307179586;
    return rope->dim * kvt_log(rope->original / (n * two_pi)) / (2 * kvt_log((double)rope->base));
}

/* Pairs up to `first` keep their frequency, from `last` on it is divided by the factor. */
typedef struct ramp {
    double first, last;
} ramp;

static ramp ramp_of(const rope_config *rope) {
    double most = rope->dim - 1;
    int first = (int)between(pair_of_turns(rope, (double)rope->beta_fast), 0, most); /* rounded down */
    double last = between(pair_of_turns(rope, (double)rope->beta_slow), 0, most);
    int up = (int)last < last ? (int)last + 1 : (int)last;
    return (ramp){ first, up > first ? up : first + 0.001 }; /* a step, as the reference implementation makes it */
}

static double stretched(const rope_config *rope, const ramp *by, int i, double f) {
    double shrunk = f / (double)rope->factor;
    switch (rope->scaling) {
    case ROPE_LINEAR: return shrunk;
    case ROPE_YARN: {
        double share = between((i - by->first) / (by->last - by->first), 0, 1);
        return shrunk * share + f * (1 - share);
    }
    default: return f;
    }
}

/* factors [dim / 2], or none. */
static kvt_status fill(float *freqs, const rope_config *rope, const vector *factors, const model_file *f,
                       error_text *err) {
    double ln_base = kvt_log((double)rope->base);
    ramp by = rope->scaling == ROPE_YARN ? ramp_of(rope) : (ramp){ 0 };
    for (int i = 0; i < rope->dim / 2; i++) {
        float divisor = factors->at ? factors->at[i] : 1;
        if (!(divisor > 0) || !isfinite(divisor))
            return file_fail(f, err, KVT_E_CORRUPT, "rope factor %d is %g, not a positive number", i, (double)divisor);
        freqs[i] = (float)stretched(rope, &by, i, kvt_exp(-(2.0 * i / rope->dim) * ln_base) / (double)divisor);
        if (!isfinite(freqs[i]))
            return file_fail(f, err, KVT_E_CORRUPT, "rope frequency %d is not a number that can be computed with", i);
    }
    return KVT_OK;
}

kvt_status ropes_make(model_ropes *ropes, const model_config *c, const model_weights *w, const model_file *f,
                      error_text *err) {
    const rope_config *rope = &c->rope;
    size_t half = (size_t)rope->dim / 2;
    bool two = rope->factors == ROPE_FACTORS_TWO;
    ropes->freqs = (vector){ mem_take(NULL, 2 * half * sizeof(float)), 2 * half };
    if (!ropes->freqs.at) return file_fail(f, err, KVT_E_MEMORY, "no memory for %zu frequencies", half);
    TRY(fill(ropes->freqs.at, rope, two ? &w->rope_short : &w->rope_freqs, f, err));
    TRY(fill(ropes->freqs.at + half, rope, two ? &w->rope_long : &w->rope_freqs, f, err));
    ropes->within = (kvt_rope){
        .dim = rope->dim,
        .base = rope->base,
        .halves = rope->halves,
        .freqs = ropes->freqs.at,
        .magnitude = rope->magnitude,
    };
    ropes->beyond = ropes->within;
    ropes->beyond.freqs += half;
    return KVT_OK;
}

void ropes_free(model_ropes *ropes) {
    mem_give(NULL, ropes->freqs.at, ropes->freqs.n * sizeof(float));
}
