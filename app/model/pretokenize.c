/* pretokenize.c - see pretokenize.h. Each pre-tokenizer is a row of a table: its name and one pattern that matches at
 * every place of a text, so that pieces are the successive matches. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "pretokenize.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

/* The classes are those of the reference (Hugging Face tokenizers 0.23: letters and numbers of Unicode 16, and Rust's
 * is_numeric of Unicode 17), whatever Unicode version the PCRE2 at hand knows: what came after Unicode 14, its version
 * on the oldest system supported, is spelled out. \s is not used: PCRE2's takes in U+180E, which is no white space. */
#define NEW_LETTERS                                                                                          \
    "\\x{1C89}\\x{1C8A}\\x{A7CB}-\\x{A7CD}\\x{A7DA}-\\x{A7DC}\\x{105C0}-\\x{105F3}\\x{10D4A}-\\x{10D65}"       \
    "\\x{10D6F}-\\x{10D85}\\x{10EC2}-\\x{10EC4}\\x{1123F}\\x{11240}\\x{11380}-\\x{11389}\\x{1138B}\\x{1138E}"  \
    "\\x{11390}-\\x{113B5}\\x{113B7}\\x{113D1}\\x{113D3}\\x{11BC0}-\\x{11BE0}\\x{11F02}\\x{11F04}-\\x{11F10}"  \
    "\\x{11F12}-\\x{11F33}\\x{1342F}\\x{13441}-\\x{13446}\\x{13460}-\\x{143FA}\\x{16100}-\\x{1611D}"          \
    "\\x{16D40}-\\x{16D6C}\\x{18CFF}\\x{1B132}\\x{1B155}\\x{1DF25}-\\x{1DF2A}\\x{1E030}-\\x{1E06D}"           \
    "\\x{1E4D0}-\\x{1E4EB}\\x{1E5D0}-\\x{1E5ED}\\x{1E5F0}\\x{2B739}\\x{2EBF0}-\\x{2EE5D}\\x{31350}-\\x{323AF}"
#define NEW_NUMBERS                                                                                          \
    "\\x{10D40}-\\x{10D49}\\x{116D0}-\\x{116E3}\\x{11BF0}-\\x{11BF9}\\x{11F50}-\\x{11F59}\\x{16130}-\\x{16139}" \
    "\\x{16D70}-\\x{16D79}\\x{1CCF0}-\\x{1CCF9}\\x{1D2C0}-\\x{1D2D3}\\x{1E4F0}-\\x{1E4F9}\\x{1E5F1}-\\x{1E5FA}"
#define NEWER_NUMBERS "\\x{11DE0}-\\x{11DE9}\\x{16FF4}-\\x{16FF6}"

#define LETTER "\\p{L}" NEW_LETTERS
#define NUMBER "\\p{N}" NEW_NUMBERS
#define DIGIT NUMBER NEWER_NUMBERS
#define SPACE                                                                                                          \
    "\\x{09}-\\x{0D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"

/* GPT-2's: English endings; words, numbers and the rest, each with one space in front; of a run of white space the
 * last stays with what follows. */
#define ENDINGS "'(?:[sdmt]|ll|ve|re)|"
static const char GPT_2[] = ENDINGS " ?[" LETTER "]+| ?[" NUMBER "]+| ?[^" SPACE LETTER NUMBER "]+|"
                                    "[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+";

/* Two steps of the reference in one: every digit is cut out first, then GPT-2's pattern works on the texts between. For
 * that pattern a text ends before a digit, so a run of white space there keeps its last. */
static const char SMOLLM[] = "[" DIGIT "]|" ENDINGS " ?[" LETTER "]+| ?[^" SPACE LETTER DIGIT "]+|"
                             "[" SPACE "]+(?![^" SPACE DIGIT "])|[" SPACE "]+";

/* Only what was compared with the reference stands here. */
static const struct {
    const char *name, *pattern;
} ROWS[] = {
    {"smollm", SMOLLM},
    {"gpt-2", GPT_2},
    {"default", GPT_2}, /* also where the file has no such key */
};

struct pretokenizer {
    pcre2_code *code;
};

static kvt_status find_pattern(const model_file *f, const char **pattern, error_text *err) {
    file_text name = {"default", 7};
    if (file_has(f, "tokenizer.ggml.pre")) TRY(file_string(f, "tokenizer.ggml.pre", &name, err));
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        if (strlen(ROWS[i].name) == name.n && memcmp(ROWS[i].name, name.at, name.n) == 0) {
            *pattern = ROWS[i].pattern;
            return KVT_OK;
        }
    return file_fail(f, err, KVT_E_UNSUPPORTED,
                     "its text is cut up by \"%.*s\" (tokenizer.ggml.pre), which this version does not know",
                     FILE_SHOW(name));
}

kvt_status pretokenizer_open(pretokenizer **out, const model_file *f, error_text *err) {
    *out = NULL;
    const char *pattern;
    TRY(find_pattern(f, &pattern, err));
    pretokenizer *p = calloc(1, sizeof *p);
    if (!p) return file_fail(f, err, KVT_E_MEMORY, "no memory for the tokenizer");
    int error;
    PCRE2_SIZE where;
    p->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error,
                            &where, NULL);
    if (!p->code) {
        pretokenizer_close(p);
        return file_fail(f, err, KVT_E_UNSUPPORTED,
                         "this system's PCRE2 does not take the tokenizer's pattern (error %d at %zu)", error,
                         (size_t)where);
    }
    pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE); /* where that is forbidden, the interpreter gives the same pieces */
    *out = p;
    return KVT_OK;
}

void pretokenizer_close(pretokenizer *p) {
    if (!p) return;
    pcre2_code_free(p->code);
    free(p);
}

kvt_status piece_walk_open(piece_walk *w, const pretokenizer *p) {
    *w = (piece_walk){.p = p, .match = pcre2_match_data_create(1, NULL)};
    return w->match ? KVT_OK : KVT_E_MEMORY;
}

void piece_walk_close(piece_walk *w) {
    pcre2_match_data_free(w->match);
    w->match = NULL;
}

kvt_status piece_next(piece_walk *w, size_t *first) {
    *first = w->at;
    if (w->at == w->n) return KVT_OK;
    /* The text was checked once; PCRE2 would check all of it again for every piece. */
    int rc = pcre2_match(w->p->code, (PCRE2_SPTR)w->text, w->n, w->at, PCRE2_NO_UTF_CHECK, w->match, NULL);
    if (rc < 0) return KVT_E_LIMIT;
    w->at = pcre2_get_ovector_pointer(w->match)[1];
    return KVT_OK;
}
