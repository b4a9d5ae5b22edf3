/* fuzz_model.c - any bytes as a model: its keys make a description that a cache takes, its tensors become weights and
 * rotary frequencies, or one line says why not. Seeds are the files of tests/vectors/family.py. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/weights.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_layers(const model_config *c) {
    kvt_layer *layers = calloc((size_t)c->n_layers, sizeof *layers);
    kvt_options opt = kvt_options_default();
    kvt_bytes_info info;
    if (!layers) return;
    model_layers(c, layers);
    opt.layers = layers;
    opt.n_layers = c->n_layers;
    kvt_status status = kvt_bytes(&opt, &info);
    if (status == KVT_E_ARGUMENT || status == KVT_E_UNSUPPORTED) abort();
    free(layers);
}

static void check_ropes(const model_ropes *ropes, const model_config *c) {
    const int32_t positions[] = { 0, 1, c->context - 1 };
    float turns[3 * 512];
    if (c->rope.dim > 512) abort();
    kvt_rope_turns(&ropes->within, positions, 3, turns);
    kvt_rope_turns(&ropes->beyond, positions, 3, turns);
    for (size_t i = 0; i < ropes->freqs.n; i++)
        if (!isfinite(ropes->freqs.at[i])) abort();
}

static kvt_status load(model *m, const model_file *f, error_text *err) {
    kvt_status status = config_read(&m->config, &m->arch, f, err);
    if (status != KVT_OK) return status;
    check_layers(&m->config);
    if (model_context(&m->config) < 1) abort();
    status = weights_load(&m->weights, m->arch, &m->config, f, NULL, err);
    if (status == KVT_OK) status = ropes_make(&m->ropes, &m->config, &m->weights, f, err);
    if (status == KVT_OK) check_ropes(&m->ropes, &m->config);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    model_file *f;
    model m = { 0 };
    error_text err = { "" };
    if (file_open_memory(&f, "fuzz", data, n, NULL) != KVT_OK) return 0;
    kvt_status status = load(&m, f, &err);
    if (status != KVT_OK && (!err.text[0] || strchr(err.text, '\n'))) abort();
    ropes_free(&m.ropes);
    weights_free(&m.weights);
    file_close(f);
    return 0;
}
