/* chat_context.c - /context: the blocks of the cache as a grid of letters, message by message, and who leaves next.
 *
 *      0 |SSSS|SSuu|aaaa|aaaU|UUAA|A...|....|
 *
 * A letter is a part of a block, a whole one, or several, whichever fits; it names the message that has most of it. */
#include "chat.h"

#include <string.h>
#include <wchar.h>

#include "base/ints.h"

enum { ROWS_MAX = 8, LABEL_COLUMNS = 7, MESSAGES_MAX = 24 };

typedef struct grid {
    int block_tokens;
    int blocks_used, blocks_all;
    int letters;          /* of a block; 1 where blocks are several to a letter */
    int blocks_of_letter; /* 1 where letters are several to a block */
    int per_row;          /* blocks */
} grid;

/* ------------------------------------------------------------------------------------------------ measures */

/* Columns of a block: a bar between blocks that have several letters. */
static int block_columns(const grid *g) {
    return g->letters > 1 ? g->letters + 1 : 1;
}

static void grid_fit(grid *g, int columns) {
    int room = columns - LABEL_COLUMNS - 2;
    if (room < 5) room = 5;
    g->blocks_of_letter = 1;
    for (g->letters = 4; g->letters >= 1; g->letters /= 2) {
        g->per_row = room / block_columns(g);
        if (int_ceil_div(g->blocks_used, g->per_row) <= ROWS_MAX) return;
    }
    g->letters = 1;
    while (int_ceil_div(g->blocks_used, room * g->blocks_of_letter) > ROWS_MAX) g->blocks_of_letter *= 2;
    g->per_row = room * g->blocks_of_letter;
}

static grid grid_of(const chat_session *s) {
    const engine_options *e = engine_options_of(s->engine);
    grid g = { .block_tokens = e->block_tokens };
    g.blocks_used = int_ceil_div(talk_length(s->talk), e->block_tokens);
    g.blocks_all = int_ceil_div(e->context, e->block_tokens);
    grid_fit(&g, screen_columns());
    return g;
}

/* ------------------------------------------------------------------------------------------------- letters */

/* Small letters leave next. */
static char letter_of(const talk_message *m) {
    static const char *const letters[] = { "Ss", "Uu", "Aa" };
    return letters[m->role][m->turn == 0];
}

/* The message that has most of the tokens from .. to - 1, '.' where there are none. *at is where to begin looking, and
 * moves on: cells come in order. */
static char cell_letter(const talk *t, int from, int to, int *at) {
    char letter = '.';
    int most = 0, n = talk_n_messages(t);
    for (int i = *at; i < n; i++) {
        talk_message m = talk_at(t, i);
        int end = m.first + m.n_tokens, first = m.first > from ? m.first : from, last = end < to ? end : to;
        if (m.first >= to) break;
        if (end <= from) *at = i;
        if (last - first <= most) continue;
        most = last - first;
        letter = letter_of(&m);
    }
    return letter;
}

static void letter_print(const chat_screen *s, char letter) {
    static const struct {
        const char *letters, *colour;
    } roles[] = { { "Ss", "35" }, { "Uu", "36" }, { "Aa", "32" } };
    for (int i = 0; i < 3 && s->colour; i++)
        if (strchr(roles[i].letters, letter)) {
            fprintf(stderr, "\033[%sm%c\033[0m", roles[i].colour, letter);
            return;
        }
    fputc(letter, stderr);
}

static void block_print(const chat_session *s, const grid *g, int block, int *at) {
    int tokens = g->block_tokens * g->blocks_of_letter / g->letters, length = talk_length(s->talk);
    for (int i = 0; i < g->letters; i++) {
        int from = block * g->block_tokens + i * tokens, to = from + tokens;
        letter_print(&s->screen, cell_letter(s->talk, from, to < length ? to : length, at));
    }
    if (g->letters > 1) fputc('|', stderr);
}

/* Rows of what is in use; the last one is filled up with free blocks. */
static void grid_print(const chat_session *s, const grid *g) {
    int at = 0, rows = int_ceil_div(g->blocks_used, g->per_row), end = rows * g->per_row;
    if (end > g->blocks_all) end = g->blocks_all;
    for (int first = 0; first < end; first += g->per_row) {
        int last = first + g->per_row < end ? first + g->per_row : end;
        fprintf(stderr, "%6d %s", first, g->letters > 1 ? "|" : " ");
        for (int b = first; b < last; b += g->blocks_of_letter) block_print(s, g, b, &at);
        fputc('\n', stderr);
    }
    if (end < g->blocks_all)
        fprintf(stderr, "%8sand %s more free blocks\n", "", show_count((uint64_t)(g->blocks_all - end)).text);
}

/* ------------------------------------------------------------------------------------------------ messages */

/* The beginning of a text in so many columns, on one line. */
static void beginning_print(const chat_screen *s, const char *text, size_t n, int columns) {
    mbstate_t state = { 0 };
    wchar_t c;
    for (size_t i = 0, length; i < n; i += length) {
        length = mbrtowc(&c, text + i, n - i, &state);
        bool whole = length != 0 && length < (size_t)-2;
        int width = whole ? wcwidth(c) : 1;
        if (!whole) {
            length = 1;
            state = (mbstate_t){ 0 };
        }
        if ((columns -= width < 0 ? 1 : width) < 1) { /* one is kept for the dots */
            fputs(s->wide ? "\u2026" : "", stderr);
            return;
        }
        if (!whole || width < 0) fputc(' ', stderr);
        else fwrite(text + i, 1, length, stderr);
    }
}

static void message_print(const chat_session *s, int i, const grid *g) {
    talk_message m = talk_at(s->talk, i);
    char blocks[32] = "";
    int first = m.first / g->block_tokens, last = (m.first + m.n_tokens - 1) / g->block_tokens;
    if (m.n_tokens > 0) snprintf(blocks, sizeof blocks, first == last ? "%d" : "%d-%d", first, last);
    fputs("     ", stderr);
    letter_print(&s->screen, letter_of(&m));
    fprintf(stderr, " %7s tokens in %-11s ", show_count((uint64_t)m.n_tokens).text, blocks);
    beginning_print(&s->screen, m.text, m.n, screen_columns() - 37);
    fputc('\n', stderr);
}

static void messages_print(const chat_session *s, const grid *g) {
    int n = talk_n_messages(s->talk), hidden = n > MESSAGES_MAX ? n - MESSAGES_MAX : 0, from = MESSAGES_MAX / 3;
    for (int i = 0; i < n; i++) {
        if (hidden && i == from) {
            fprintf(stderr, "     ... %d more\n", hidden);
            i += hidden;
        }
        message_print(s, i, g);
    }
}

/* --------------------------------------------------------------------------------------------- all of it */

static void legend_print(const chat_session *s, const grid *g) {
    char part[64] = "";
    if (g->letters > 1) snprintf(part, sizeof part, "%d tokens", g->block_tokens / g->letters);
    else if (g->blocks_of_letter > 1) snprintf(part, sizeof part, "%d blocks", g->blocks_of_letter);
    else snprintf(part, sizeof part, "a block");
    screen_dim(&s->screen, "S system, U you, A answer, small: leaves first, . free; a letter is %s", part);
}

void chat_context(const chat_session *s) {
    grid g = grid_of(s);
    int length = talk_length(s->talk), tail = length % g.block_tokens;
    screen_say(&s->screen, "%s of %s tokens, %s of them computed; %s of %s blocks of %d%s",
               show_count((uint64_t)length).text, show_count((uint64_t)engine_options_of(s->engine)->context).text,
               show_count((uint64_t)talk_cached(s->talk)).text, show_count((uint64_t)g.blocks_used).text,
               show_count((uint64_t)g.blocks_all).text, g.block_tokens, length == 0 ? ", all free" : "");
    if (length > 0) {
        grid_print(s, &g);
        if (tail) screen_say(&s->screen, "%6s  the last block is filled with %d of %d", "", tail, g.block_tokens);
    }
    messages_print(s, &g);
    legend_print(s, &g);
}
