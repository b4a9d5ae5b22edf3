/* needle_text.c - a long text with a key hidden in it: sentences of our own or a file's, cut at the end of a sentence
 * near each depth. Leaves asking for the key to bench_needle.c. */
#include "bench_formats.h"

#include <stdlib.h>
#include <string.h>

#include "prompts.h"

static const char QUESTION[] = "\n\nThe secret pass key is";
static const char SENTENCE[] = " The secret pass key is %s. Remember it.";

/* ------------------------------------------------------------------------------------------------ the filler */

static uint64_t draw(uint64_t *seed, uint64_t n) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (*seed >> 33) % n;
}

enum { N_PARTS = 4, N_WORDS = 10 };

static const char *const parts[N_PARTS][N_WORDS] = {
    { "The miller", "The old gardener", "A young sailor", "The baker", "My neighbour", "The postman", "A tall teacher",
      "The painter", "The night watchman", "Her cousin" },
    { "walked along", "painted", "looked at", "talked about", "repaired", "remembered", "wrote about", "swept",
      "waited beside", "dreamed of" },
    { "the wooden bridge", "the quiet river", "a small garden", "the stone wall", "the market square", "an empty boat",
      "the tall clock tower", "the long road", "a blue door", "the apple trees" },
    { "early in the morning", "after the rain", "before supper", "on a cold evening", "during the summer",
      "without saying a word", "as the bells rang", "while the children slept", "at the end of the week",
      "when the snow had melted" },
};

/* A sentence has more than 8 tokens in any vocabulary of words. */
static kvt_status sentences(byte_list *out, int n_tokens, uint64_t seed) {
    kvt_status status = KVT_OK;
    for (int i = 0; i <= n_tokens / 8 && status == KVT_OK; i++) {
        char line[160];
        const char *word[N_PARTS];
        for (int p = 0; p < N_PARTS; p++) word[p] = parts[p][draw(&seed, N_WORDS)];
        int n = snprintf(line, sizeof line, "%s%s %s %s %s.", i ? " " : "", word[0], word[1], word[2], word[3]);
        status = byte_list_add(out, line, (size_t)n);
    }
    return status;
}

static int filler_make(needle_text *t, const formats_options *o, const model *m) {
    byte_list text = { 0 };
    int status = o->file ? prompts_read_file(o->file, &text) : CLI_DONE;
    if (status == CLI_DONE && !o->file && sentences(&text, t->longest, o->seed) != KVT_OK)
        status = cli_fail("no memory for a text of %d tokens", t->longest);
    if (status == CLI_DONE && tokenizer_encode(model_tokenizer(m), text.at, text.n, false, &t->filler) != KVT_OK)
        status = cli_fail("%s: cannot be made tokens", o->file ? o->file : "the text");
    byte_list_free(&text);
    if (status == CLI_DONE && t->filler.n < (size_t)t->longest)
        status = cli_fail("%s: has %zu tokens, of %d to hide a key in", o->file ? o->file : "the text", t->filler.n,
                          t->longest);
    return status;
}

/* ------------------------------------------------------------------------------------------------ the cases */

/* Where the sentence ends that token n lies in; at n where none does for a while before it. */
static int sentence_end(const needle_text *t, const model *m, int n) {
    enum { FAR = 100 };
    for (int i = n; i > 0 && i > n - FAR; i--) {
        size_t length = 0;
        const char *bytes = tokenizer_bytes(model_tokenizer(m), t->filler.id[i - 1], &length);
        if (bytes && length > 0 && bytes[length - 1] == '.') return i;
    }
    return n < FAR ? 0 : n;
}

static kvt_status needle_put(const needle_case *c, const model *m, token_list *out) {
    char text[80];
    int n = snprintf(text, sizeof text, SENTENCE, c->key);
    return tokenizer_encode(model_tokenizer(m), text, (size_t)n, false, out);
}

static int case_make(needle_text *t, const model *m, int length, int depth, uint64_t *seed, needle_case *c) {
    token_list needle = { 0 };
    *c = (needle_case){ .length = length, .depth = depth };
    snprintf(c->key, sizeof c->key, "%d", 10000 + (int)draw(seed, 90000));
    if (needle_put(c, m, &needle) != KVT_OK) return cli_fail("no memory for a sentence");
    c->end = t->length[length] - NEEDLE_ANSWER - t->bos - (int)needle.n - (int)t->question.n;
    token_list_free(&needle);
    if (c->end < 1) return cli_fail("--lengths: %d tokens hold no text around the key", t->length[length]);
    int at = t->n_depths > 1 ? (int)((int64_t)c->end * depth / (t->n_depths - 1)) : c->end / 2;
    c->cut = sentence_end(t, m, at);
    return CLI_DONE;
}

static int by_cut(const void *a, const void *b) {
    const needle_case *x = a, *y = b;
    if (x->cut != y->cut) return x->cut < y->cut ? -1 : 1;
    return x->length != y->length ? x->length - y->length : x->depth - y->depth;
}

static int cases_make(needle_text *t, const formats_options *o, const model *m) {
    uint64_t seed = o->seed + 1;
    int status = CLI_DONE;
    t->cases = calloc((size_t)(t->n_lengths * t->n_depths), sizeof *t->cases);
    if (!t->cases) return cli_fail("no memory for %d prompts", t->n_lengths * t->n_depths);
    for (int i = 0; i < t->n_lengths && status == CLI_DONE; i++)
        for (int d = 0; d < t->n_depths && status == CLI_DONE; d++)
            status = case_make(t, m, i, d, &seed, &t->cases[t->n_cases++]);
    qsort(t->cases, (size_t)t->n_cases, sizeof *t->cases, by_cut);
    return status;
}

int needle_text_make(needle_text *t, const formats_options *o, const model *m) {
    int context = model_context(model_config_of(m));
    *t = (needle_text){ .bos = tokenizer_about(model_tokenizer(m))->add_bos, .n_depths = o->depths };
    t->n_lengths = option_list(o->lengths, t->length);
    for (int i = 0; i < t->n_lengths; i++)
        if (t->length[i] > t->longest) t->longest = t->length[i];
    if (t->longest > context)
        return cli_fail("--lengths %d: the model was trained on %d positions, and finds nothing beyond them",
                        t->longest, context);
    if (tokenizer_encode(model_tokenizer(m), QUESTION, strlen(QUESTION), false, &t->question) != KVT_OK)
        return cli_fail("no memory for a question");
    int status = filler_make(t, o, m);
    return status == CLI_DONE ? cases_make(t, o, m) : status;
}

void needle_text_free(needle_text *t) {
    token_list_free(&t->filler);
    token_list_free(&t->question);
    free(t->cases);
}

kvt_status needle_rest(const needle_text *t, const needle_case *c, const model *m, token_list *out) {
    kvt_status status = needle_put(c, m, out);
    for (int i = c->cut; i < c->end && status == KVT_OK; i++) status = token_list_add(out, t->filler.id[i]);
    for (size_t i = 0; i < t->question.n && status == KVT_OK; i++) status = token_list_add(out, t->question.id[i]);
    return status;
}
