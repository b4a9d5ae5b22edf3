/* ends.c - see ends.h. */
#include "ends.h"

#include <string.h>

/* The end of a turn, of a document, or of a call to a tool, whose answer somebody else gives. <|end_of_role|> (Granite)
 * and <|end_header_id|> (Llama 3) end a headline inside the text and are not here. */
static const struct {
    const char *text, *unless; /* not an end where this token is also there */
} KNOWN[] = {
    {"<|im_end|>"},                           /* ChatML: Qwen, SmolLM2, many others */
    {"<|endoftext|>"},                        /* end of a document: GPT-2 and most after it */
    {"<|end_of_text|>"},                      /* the same: Llama 3, Granite */
    {"<|eot_id|>"}, {"<|eom_id|>"},           /* Llama 3: end of a turn, of a message that calls a tool */
    {"<|eot|>"}, {"<|eom|>"},                 /* Llama 4's */
    {"<end_of_turn>"},                        /* Gemma */
    {"<end_of_utterance>"},                   /* SmolVLM */
    {"<\xEF\xBD\x9C" "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"}, /* DeepSeek */
    {"<|return|>"}, {"<|call|>"},             /* gpt-oss: the answer, a call to a tool */
    {"<|end|>", .unless = "<|return|>"},      /* Phi; in gpt-oss a thought ends with it, and the answer follows */
};
enum { N_KNOWN = sizeof KNOWN / sizeof *KNOWN };
_Static_assert(N_KNOWN + 3 <= ENDS_MAX, "the known ends and three that a file names have room");

void ends_add(ends *e, int32_t id) {
    if (id >= 0) e->id[e->n++] = id;
}

/* Whether control or user-defined: converters have written both. */
void ends_add_known(ends *e, const vocab *v) {
    for (int i = 0; i < N_KNOWN; i++) {
        const vocab_special *s = vocab_special_find(v, KNOWN[i].text, strlen(KNOWN[i].text));
        const char *unless = KNOWN[i].unless;
        if (s && !(unless && vocab_special_find(v, unless, strlen(unless)))) ends_add(e, s->id);
    }
}

bool ends_has(const ends *e, int32_t id) {
    for (int i = 0; i < e->n; i++)
        if (e->id[i] == id) return true;
    return false;
}
