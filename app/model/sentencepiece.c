/* sentencepiece.c - see sentencepiece.h. */
#include "sentencepiece.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

static const char SCORES[] = "tokenizer.ggml.scores", UNKNOWN[] = "tokenizer.ggml.unknown_token_id";

/* -------------------------------------------------------------------------------------------- opening */

static kvt_status read_scores(sentencepiece *s, const model_file *f, error_text *err) {
    file_array list;
    size_t n = (size_t)s->vocab->n;
    TRY(file_array_any(f, SCORES, &list, err));
    if (list.n != n) return file_fail(f, err, KVT_E_CORRUPT, "%s has %zu entries for %zu tokens", SCORES, list.n, n);
    s->score = malloc(n * sizeof *s->score);
    if (!s->score) return file_fail(f, err, KVT_E_MEMORY, "no memory for %zu scores", n);
    for (size_t i = 0; i < n; i++) {
        if (!file_item_f32(&list, i, &s->score[i]))
            return file_fail(f, err, KVT_E_CORRUPT, "%s holds no floating-point numbers", SCORES);
        if (!(s->score[i] >= -1e30f && s->score[i] <= 1e30f))
            return file_fail(f, err, KVT_E_CORRUPT, "entry %zu of %s, %g, is no score", i, SCORES, (double)s->score[i]);
    }
    return KVT_OK;
}

static kvt_status find_unknown(sentencepiece *s, const model_file *f, error_text *err) {
    const vocab *v = s->vocab;
    uint32_t id;
    s->unknown = -1;
    for (int32_t i = v->n - 1; i >= 0; i--)
        if (v->type[i] == VOCAB_UNKNOWN) s->unknown = i;
    if (!file_has(f, UNKNOWN)) return KVT_OK;
    TRY(file_u32(f, UNKNOWN, &id, err));
    if (id >= (uint32_t)v->n)
        return file_fail(f, err, KVT_E_CORRUPT, "%s is %" PRIu32 ", but there are %" PRId32 " tokens", UNKNOWN, id,
                         v->n);
    s->unknown = (int32_t)id;
    return KVT_OK;
}

/* Normal tokens are cut in all ways (spm.c), or looked for everywhere (unigram.c). SentencePiece's have 16 characters
 * at most unless its trainer is told otherwise. */
static kvt_status check_lengths(const vocab *v, const model_file *f, error_text *err) {
    for (int32_t id = 0; id < v->n; id++)
        if (v->type[id] == VOCAB_NORMAL && vocab_length(v, id) > VOCAB_BYTES_SOUGHT_MAX)
            return file_fail(f, err, KVT_E_UNSUPPORTED,
                             "token %" PRId32 " has %zu bytes; in this kind of tokenizer the longest have %d", id,
                             vocab_length(v, id), VOCAB_BYTES_SOUGHT_MAX);
    return KVT_OK;
}

/* A blank behind something else? */
static bool blank_inside(const char *text, size_t n) {
    for (size_t i = 1; i < n; i++)
        if (text[i] == ' ' && text[i - 1] != ' ') return true;
    return false;
}

static void look_at_tokens(sentencepiece *s) {
    const vocab *v = s->vocab;
    memset(s->byte_id, 0xFF, sizeof s->byte_id);
    s->cut_at_blanks = true;
    for (int32_t id = 0; id < v->n; id++) {
        const char *bytes = vocab_bytes(v, id);
        if (v->type[id] == VOCAB_BYTE) s->byte_id[(unsigned char)*bytes] = id;
        else if (!vocab_hidden(v, id) && blank_inside(bytes, vocab_length(v, id))) s->cut_at_blanks = false;
    }
}

kvt_status sentencepiece_open(sentencepiece *s, kind_traits *traits, const model_file *f, vocab *v, bool blank_first,
                              error_text *err) {
    s->vocab = v;
    TRY(check_lengths(v, f, err));
    TRY(read_scores(s, f, err));
    TRY(find_unknown(s, f, err));
    TRY(normalizer_open(&s->normal, f, v, blank_first, err));
    look_at_tokens(s);
    traits->blank = s->normal.blank_first || s->normal.blanks_single;
    return KVT_OK;
}

void sentencepiece_close(sentencepiece *s) {
    normalizer_close(&s->normal);
    free(s->score);
}

/* ------------------------------------------------------------------------------------------- encoding */

kvt_status sentencepiece_put(sentencepiece_out *out, int32_t id) {
    out->after_unknown = false;
    return token_list_add(out->ids, id);
}

kvt_status sentencepiece_put_unknown(sentencepiece_out *out, const char *character, size_t n) {
    bool spelled = true;
    for (size_t i = 0; i < n; i++) spelled &= out->s->byte_id[(unsigned char)character[i]] >= 0;
    for (size_t i = 0; spelled && i < n; i++)
        TRY(sentencepiece_put(out, out->s->byte_id[(unsigned char)character[i]]));
    if (spelled || out->after_unknown || out->s->unknown < 0) return KVT_OK;
    out->after_unknown = true;
    return token_list_add(out->ids, out->s->unknown);
}

/* One stretch between two words, cut in front of its blanks where that is allowed. */
static kvt_status encode_stretch(const void *self, sentencepiece_search *search, kind_scratch *scratch,
                                 const char *text, size_t n, sentencepiece_out *out) {
    for (size_t first = 0, end; first < n; first = end) {
        end = n;
        if (out->s->cut_at_blanks) {
            for (end = first; end < n && text[end] == ' ';) end++;
            for (; end < n && text[end] != ' ';) end++;
        }
        TRY(search(self, scratch, text + first, end - first, out));
    }
    return KVT_OK;
}

/* Everything between user-defined words, and these. */
static kvt_status encode_words(const void *self, sentencepiece_search *search, kind_scratch *scratch, const char *text,
                               size_t n, sentencepiece_out *out) {
    size_t first = 0;
    for (size_t at = 0; at < n;) {
        const vocab_special *word = vocab_special_at(out->s->vocab, text + at, n - at, SPECIAL_USER);
        if (!word) {
            at++;
            continue;
        }
        TRY(encode_stretch(self, search, scratch, text + first, at - first, out));
        TRY(sentencepiece_put(out, word->id));
        first = at += word->n;
    }
    return encode_stretch(self, search, scratch, text + first, n - first, out);
}

kvt_status sentencepiece_encode(const sentencepiece *s, const void *self, sentencepiece_search *search,
                                sentencepiece_cut cut, kind_scratch *scratch, const char *text, size_t n,
                                token_list *ids) {
    byte_list *normal = &scratch->text;
    sentencepiece_out out = {.s = s, .ids = ids};
    normal->n = 0;
    TRY(normalizer_add(&s->normal, text, n, normal));
    if (normal->n == 0) return KVT_OK;
    if (cut == SENTENCEPIECE_WHOLE) return search(self, scratch, normal->at, normal->n, &out);
    return encode_words(self, search, scratch, normal->at, normal->n, &out);
}
