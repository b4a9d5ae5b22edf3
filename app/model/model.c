/* model.c - a model opened and closed: description, tokenizer, chat template and weights of one file together. */
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TYPES_MAX = 16 }; /* more than are offered */

/* "Q4_1 210, F32 61, Q8_0 1", in order of first appearance. */
static void types_list(const model_file *f, char *out, size_t room) {
    uint32_t type[TYPES_MAX];
    int count[TYPES_MAX], n = 0;
    for (size_t i = 0; i < file_tensor_count(f); i++) {
        uint32_t t = file_tensor_at(f, i)->type;
        int j = 0;
        while (j < n && type[j] != t) j++;
        if (j == TYPES_MAX) continue;
        if (j == n) {
            type[n] = t;
            count[n++] = 0;
        }
        count[j]++;
    }
    size_t at = 0;
    for (int j = 0; j < n && at < room; j++)
        at += (size_t)snprintf(out + at, room - at, "%s%s %d", j ? ", " : "", file_type_name(type[j]), count[j]);
}

/* What a plain Llama has not, by the tensors of the first layer. */
static void special_list(const model_file *f, const model_arch *arch, const model_config *c, char *out, size_t room) {
    static const struct {
        tensor_role role;
        const char *what;
    } parts[] = {
        { TENSOR_Q_BIAS, "biases" },
        { TENSOR_QKV_BIAS, "biases" },
        { TENSOR_QKV, "q, k, v in one matrix" },
        { TENSOR_Q_NORM, "norms of q and k" },
        { TENSOR_ATTN_POST_NORM, "norms behind attention and feed-forward" },
    };
    char name[TENSOR_NAME_BYTES];
    size_t at = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && at < room; i++)
        if (file_tensor_find(f, arch_tensor_name(arch, parts[i].role, 0, name)))
            at += (size_t)snprintf(out + at, room - at, "%s%s", at ? ", " : "", parts[i].what);
    if (at < room && (c->embedding_scale != 1 || c->residual_scale != 1 || c->logit_scale != 1))
        snprintf(out + at, room - at, "%sscaled rows and logits", at ? ", " : "");
}

static void info_read(model_info *info, const model_file *f, const model_arch *arch, const model_config *config) {
    file_text name;
    *info = (model_info){ 0 };
    if (file_has(f, "general.name") && file_string(f, "general.name", &name, NULL) == KVT_OK)
        snprintf(info->name, sizeof info->name, "%.*s", FILE_SHOW(name));
    text_one_line(info->name);
    for (size_t i = 0; i < file_tensor_count(f); i++) {
        const file_tensor *t = file_tensor_at(f, i);
        size_t n = 1;
        for (int d = 0; d < t->n_dims; d++) n *= t->dims[d];
        info->weights_bytes += t->bytes;
        info->n_weights += n;
    }
    types_list(f, info->types, sizeof info->types);
    special_list(f, arch, config, info->special, sizeof info->special);
}

kvt_status model_describe(const char *path, model_config *config, model_info *info, error_text *err) {
    model_file *f;
    const model_arch *arch;
    TRY(file_open(&f, path, err));
    kvt_status status = config_read(config, &arch, f, err);
    if (status == KVT_OK) info_read(info, f, arch, config);
    file_close(f);
    return status;
}

/* A token id is a row of the embedding: both have to be equally many. */
static kvt_status tokenizer_load(model *m, const model_file *f, error_text *err) {
    TRY(tokenizer_open(&m->tokenizer, f, err));
    int n = tokenizer_about(m->tokenizer)->n_vocab;
    if (n != m->config.n_vocab)
        return file_fail(f, err, KVT_E_CORRUPT, "the tokenizer has %d tokens, the embedding %d", n, m->config.n_vocab);
    return KVT_OK;
}

static kvt_status load(model *m, const char *path, const model_file *f, kvt_workers *team, error_text *err) {
    m->stamp = file_stamp_of(f);
    m->path = realpath(path, NULL);
    if (!m->path && !(m->path = strdup(path))) return file_fail(f, err, KVT_E_MEMORY, "no memory for its path");
    TRY(config_read(&m->config, &m->arch, f, err));
    info_read(&m->info, f, m->arch, &m->config);
    TRY(tokenizer_load(m, f, err));
    kvt_status status = chat_open(&m->chat, f, m->tokenizer, &m->no_template);
    if (status != KVT_OK) return file_fail(f, err, status, "no memory for the chat template");
    TRY(weights_load(&m->weights, m->arch, &m->config, f, team, err));
    return ropes_make(&m->ropes, &m->config, &m->weights, f, err);
}

kvt_status model_open(model **out, const char *path, kvt_workers *team, error_text *err) {
    model_file *f;
    *out = NULL;
    TRY(file_open(&f, path, err));
    model *m = mem_take(NULL, sizeof *m);
    kvt_status status = m ? load(m, path, f, team, err) : file_fail(f, err, KVT_E_MEMORY, "no memory for a model");
    file_close(f);
    if (status == KVT_OK) *out = m;
    else model_close(m);
    return status;
}

void model_close(model *m) {
    if (!m) return;
    ropes_free(&m->ropes);
    weights_free(&m->weights);
    chat_close(m->chat);
    tokenizer_close(m->tokenizer);
    free(m->path);
    mem_give(NULL, m, sizeof *m);
}

const model_config *model_config_of(const model *m) {
    return &m->config;
}

const model_info *model_info_of(const model *m) {
    return &m->info;
}

const tokenizer *model_tokenizer(const model *m) {
    return m->tokenizer;
}

const chat *model_chat(const model *m, error_text *err) {
    if (err) *err = m->no_template;
    return m->chat;
}
