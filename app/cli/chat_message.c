/* chat_message.c - lines put together to messages: a line that ends in a backslash goes on, and what stands between two
 * """ is a message as it is. */
#include "chat.h"

#include <string.h>

static const char FENCE[] = "\"\"\"";
enum { N_FENCE = sizeof FENCE - 1 };

static bool is_fence(const char *at, size_t n) {
    return n >= N_FENCE && memcmp(at, FENCE, N_FENCE) == 0;
}

static bool ends_in_fence(const char *at, size_t n) {
    return n >= N_FENCE && is_fence(at + n - N_FENCE, N_FENCE);
}

static lines_status add(byte_list *out, const char *bytes, size_t n) {
    return byte_list_add(out, bytes, n) == KVT_OK ? LINES_ONE : LINES_MEMORY;
}

/* The line break behind the first fence and the one before the second are none of the message's. */
static void block_trim(byte_list *out) {
    if (out->n > 0 && out->at[out->n - 1] == '\n') out->n--;
    if (out->n > 0 && out->at[0] == '\n') memmove(out->at, out->at + 1, --out->n);
}

/* The lines up to one that ends in the fence; where the input ends first, those that there were. */
static lines_status block_read(lines *l, const char *line, size_t n, byte_list *out) {
    lines_status status = LINES_ONE;
    for (;;) {
        bool closes = ends_in_fence(line, n);
        if (add(out, line, closes ? n - N_FENCE : n) != LINES_ONE) return LINES_MEMORY;
        if (closes) break;
        if (add(out, "\n", 1) != LINES_ONE) return LINES_MEMORY;
        status = lines_next(l, ". ", &line, &n);
        if (status == LINES_END) break;
        if (status != LINES_ONE) return status;
    }
    block_trim(out);
    return LINES_ONE;
}

static lines_status continued_read(lines *l, const char *line, size_t n, byte_list *out) {
    while (n > 0 && line[n - 1] == '\\') {
        if (add(out, line, n - 1) != LINES_ONE || add(out, "\n", 1) != LINES_ONE) return LINES_MEMORY;
        lines_status status = lines_next(l, ". ", &line, &n);
        if (status == LINES_END) return LINES_ONE;
        if (status != LINES_ONE) return status;
    }
    return add(out, line, n);
}

lines_status message_read(lines *l, byte_list *out, bool *literal) {
    const char *line;
    size_t n;
    out->n = 0;
    lines_status status = lines_next(l, "> ", &line, &n);
    if (status != LINES_ONE) return status;
    *literal = is_fence(line, n);
    if (*literal) status = block_read(l, line + N_FENCE, n - N_FENCE, out);
    else status = continued_read(l, line, n, out);
    return status == LINES_REFUSED ? LINES_CLEARED : status; /* the lines before are gone */
}
