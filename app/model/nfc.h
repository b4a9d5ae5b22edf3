/* nfc.h - Unicode's normal form C: composed characters. What has a decomposition and what composes is utf8proc's; the
 * order of combining marks is found here, because utf8proc takes quadratic time for it. The Unicode version is the
 * library's; the reference's (Hugging Face tokenizers 0.23) is 9, so where marks that came later stand beside others
 * their order may differ from it. */
#ifndef NFC_H
#define NFC_H

#include "tokenizer.h"

/* Memory of one call, reused from text to text; {0} is empty. */
typedef struct nfc_scratch {
    int32_t *rune; /* [2 * room] code points of one stretch, and as many to sort with */
    size_t n, room;
} nfc_scratch;

void nfc_scratch_free(nfc_scratch *s);

/* The text has no character that any normal form would change: true of most languages that use Latin letters. */
bool nfc_plain(const char *text, size_t n);

/* Append the normal form of n bytes of valid UTF-8, in linear time. KVT_E_MEMORY: out has only some of it. */
kvt_status nfc_add(byte_list *out, const char *text, size_t n, nfc_scratch *s);

#endif
