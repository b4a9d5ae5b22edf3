/* bytelevel.c - the kind "gpt2": byte-level BPE. Text is brought to its normal form where the model asks for that, cut
 * into pieces, and the bytes of each piece are merged in the order of the file's list. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kind.h"

static const char MERGES[] = "tokenizer.ggml.merges";

typedef struct bytelevel {
    const vocab *vocab;
    pretokenizer *pre;
    bpe bpe;
    int32_t byte_id[256]; /* -1: the vocabulary lacks this byte */
} bytelevel;

/* -------------------------------------------------------------------------------------------- opening */

/* "left right", each in the file's spelling; no spelling contains a blank. */
static bool rule_of(const spellings *s, file_text line, bpe_rule *rule, char *joined) {
    const char *blank = memchr(line.at, ' ', line.n);
    if (!blank) return false;
    size_t n_left = (size_t)(blank - line.at), n_right = line.n - n_left - 1;
    memcpy(joined, line.at, n_left);
    memcpy(joined + n_left, blank + 1, n_right);
    rule->left = spellings_find(s, line.at, n_left);
    rule->right = spellings_find(s, blank + 1, n_right);
    rule->joined = spellings_find(s, joined, n_left + n_right);
    return n_left && n_right && rule->left >= 0 && rule->right >= 0 && rule->joined >= 0;
}

static kvt_status read_rules(bytelevel *b, const model_file *f, const spellings *s, file_array list, char *joined,
                             error_text *err) {
    for (uint32_t r = 0; list.n; r++) {
        file_text line = file_take_string(&list);
        bpe_rule rule = {.rank = r};
        if (!rule_of(s, line, &rule, joined))
            return file_fail(f, err, KVT_E_CORRUPT,
                             "entry %" PRIu32 " of %s, \"%.*s\", is not two tokens that make a third", r, MERGES,
                             FILE_SHOW(line));
        bpe_add(&b->bpe, rule);
    }
    return KVT_OK;
}

static kvt_status read_merges(bytelevel *b, const model_file *f, const spellings *s, error_text *err) {
    file_array list;
    TRY(file_array_of(f, MERGES, FILE_STRING, &list, err));
    if (list.n > INT32_MAX / 4) return file_fail(f, err, KVT_E_CORRUPT, "%s has %zu entries", MERGES, list.n);
    char *joined = malloc(list.bytes + 1); /* no entry is longer than all of them */
    kvt_status st = KVT_E_MEMORY;
    if (joined && bpe_open(&b->bpe, list.n) == KVT_OK) st = read_rules(b, f, s, list, joined, err);
    else file_fail(f, err, st, "no memory for %zu merges", list.n);
    free(joined);
    return st;
}

static void bytelevel_close(void *self) {
    bytelevel *b = self;
    if (!b) return;
    pretokenizer_close(b->pre);
    bpe_close(&b->bpe);
    free(b);
}

static kvt_status read_all(bytelevel *b, const model_file *f, vocab *v, const spellings *s, error_text *err) {
    TRY(pretokenizer_open(&b->pre, f, err));
    for (int byte = 0; byte < 256; byte++) b->byte_id[byte] = spellings_byte(s, (unsigned char)byte);
    b->vocab = v;
    if (pretokenizer_row(b->pre)->whole && vocab_index(v) != KVT_OK)
        return file_fail(f, err, KVT_E_MEMORY, "no memory for the tokenizer");
    return read_merges(b, f, s, err);
}

static kvt_status bytelevel_open(void **self, kind_traits *traits, const model_file *f, vocab *v, const spellings *s,
                                 error_text *err) {
    *self = NULL;
    bytelevel *b = calloc(1, sizeof *b);
    if (!b) return file_fail(f, err, KVT_E_MEMORY, "no memory for the tokenizer");
    kvt_status st = read_all(b, f, v, s, err);
    if (st != KVT_OK) {
        bytelevel_close(b);
        return st;
    }
    traits->bos = pretokenizer_row(b->pre)->bos;
    *self = b;
    return KVT_OK;
}

/* ------------------------------------------------------------------------------------------- encoding */

static kvt_status encode_piece(const bytelevel *b, bpe_scratch *s, const char *piece, size_t n, token_list *out) {
    if (pretokenizer_row(b->pre)->whole) {
        int32_t id = vocab_find(b->vocab, piece, n);
        if (id >= 0) return token_list_add(out, id);
    }
    TRY(bpe_begin(s, n));
    for (size_t i = 0; i < n; i++) {
        int32_t id = b->byte_id[(unsigned char)piece[i]];
        if (id >= 0) bpe_put(s, id);
    }
    if (s->n == 0) return KVT_OK;
    bpe_merge(&b->bpe, s);
    for (uint32_t i = 0; i != BPE_END; i = s->symbol[i].right) TRY(token_list_add(out, s->symbol[i].id));
    return KVT_OK;
}

static kvt_status bytelevel_encode(const void *self, kind_scratch *scratch, const char *text, size_t n,
                                   token_list *out) {
    const bytelevel *b = self;
    piece_walk *walk = &scratch->walk;
    if (!walk->match) TRY(piece_walk_open(walk, b->pre));
    if (pretokenizer_row(b->pre)->nfc && !nfc_plain(text, n)) {
        scratch->text.n = 0;
        TRY(nfc_add(&scratch->text, text, n, &scratch->nfc));
        text = scratch->text.at;
        n = scratch->text.n;
    }
    piece_walk_start(walk, text, n);
    for (size_t first;;) {
        TRY(piece_next(walk, &first));
        if (first == walk->at) return KVT_OK;
        TRY(encode_piece(b, &scratch->bpe, text + first, walk->at - first, out));
    }
}

const kind kind_bytelevel = {.name = "gpt2", .words = "byte-level BPE", .style = VOCAB_BYTES,
                             .special = SPECIAL_CONTROL | SPECIAL_USER, .open = bytelevel_open,
                             .close = bytelevel_close, .encode = bytelevel_encode};
