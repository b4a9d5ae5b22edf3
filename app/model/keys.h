/* keys.h - the keys of one architecture in a file: names behind its prefix, values checked against their range. */
#ifndef APP_KEYS_H
#define APP_KEYS_H

#include "arch.h"
#include "file/file.h"

/* What is read, from where. */
typedef struct key_reader {
    const model_file *f;
    const model_arch *arch;
    error_text *err;
} key_reader;

enum { KEY_BYTES = 128 };

/* "llama.block_count" of "block_count"; returns key. */
const char *key_of(const key_reader *r, const char *name, char key[KEY_BYTES]);
bool key_has(const key_reader *r, const char *name);

/* A number within least .. most that has to be there, or may be missing: `otherwise` >= 0 takes its place. */
enum { KEY_REQUIRED = -1 };
kvt_status key_int(const key_reader *r, const char *name, int least, int most, int otherwise, int *out);

/* A positive number; `otherwise` where the key is missing. */
kvt_status key_positive(const key_reader *r, const char *name, float otherwise, float *out);

kvt_status key_flag(const key_reader *r, const char *name, bool otherwise, bool *out);

#endif
