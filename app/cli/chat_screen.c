/* chat_screen.c - what a chat tells around its answers: the banner, what each answer took, notes. */
#include "chat.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"

/* ------------------------------------------------------------------------------------------ what it can show */

int screen_columns(void) {
    struct winsize size;
    const char *columns = getenv("COLUMNS");
    for (int fd = STDERR_FILENO; fd >= STDIN_FILENO; fd--)
        if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    int n = columns ? atoi(columns) : 0;
    return n > 0 ? n : 100;
}

static bool wants_colour(void) {
    const char *none = getenv("NO_COLOR"), *term = getenv("TERM");
    if (none && none[0]) return false;
    return term && term[0] && strcmp(term, "dumb") != 0;
}

/* What is typed may be any character, also where nobody has set a locale. */
static bool find_characters(void) {
    if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8") != 0) setlocale(LC_CTYPE, "C.UTF-8");
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

chat_screen screen_find(void) {
    chat_screen s = { .terminal = isatty(STDIN_FILENO) && isatty(STDERR_FILENO), .columns = screen_columns() };
    s.wide = find_characters();
    s.colour = isatty(STDERR_FILENO) && wants_colour();
    s.tame = isatty(STDOUT_FILENO);
    return s;
}

/* ------------------------------------------------------------------------------------------------ lines */

static void line_put(const chat_screen *s, const char *line) {
    wrap w = wrap_of(screen_columns());
    byte_list out = { 0 };
    if (s->terminal && wrap_add(&w, line, strlen(line), &out) == KVT_OK && wrap_end(&w, &out) == KVT_OK)
        fwrite(out.at, 1, out.n, stderr);
    else fputs(line, stderr);
    wrap_free(&w);
    byte_list_free(&out);
}

static void say(const chat_screen *s, bool dim, const char *format, va_list args) {
    char line[2 * 4096];
    vsnprintf(line, sizeof line, format, args);
    text_one_line(line);
    fputs(dim && s->colour ? "\033[2m" : "", stderr);
    line_put(s, line);
    fputs(dim && s->colour ? "\033[0m\n" : "\n", stderr);
}

void screen_say(const chat_screen *s, const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(s, false, format, args);
    va_end(args);
}

void screen_dim(const chat_screen *s, const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(s, true, format, args);
    va_end(args);
}

/* Parts of a line, one behind the other as far as the width goes; those at the end matter least. */
typedef struct parts {
    const chat_screen *screen;
    char text[512];
    int n, columns; /* of text: bytes, and columns they take */
    bool left_out;  /* something did not fit */
} parts;

static void part(parts *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void part(parts *p, const char *format, ...) {
    char one[200];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(one, sizeof one, format, args);
    va_end(args);
    const char *between = p->n == 0 ? "" : p->screen->wide ? " \u00b7 " : ", ";
    int columns = n + (p->n == 0 ? 0 : p->screen->wide ? 3 : 2);
    p->left_out = p->left_out || p->columns + columns > screen_columns();
    if (p->left_out) return;
    p->columns += columns;
    p->n += snprintf(p->text + p->n, sizeof p->text - (size_t)p->n, "%s%s", between, one);
}

/* --------------------------------------------------------------------------------------------- the banner */

static size_t bytes_per_token(const chat_session *s) {
    kvt_bytes_info info;
    kvt_status status = engine_bytes(engine_model(s->engine), engine_options_of(s->engine), &info);
    return status == KVT_OK ? info.bytes_per_token : 0;
}

static void banner_cache(const chat_session *s) {
    const engine_options *e = engine_options_of(s->engine);
    const char *k = kvt_format_name(e->k_format), *v = kvt_format_name(e->v_format);
    if (e->kind == KVT_NONE) {
        screen_say(&s->screen, "no cache: every token is computed again for each new one; context %s tokens",
                   show_count((uint64_t)e->context).text);
        return;
    }
    screen_say(&s->screen, "%s cache, %s%s%s, context %s tokens, %s each: up to %s", kvt_cache_kind_name(e->kind), k,
               k == v ? "" : "/", k == v ? "" : v, show_count((uint64_t)e->context).text,
               show_bytes((double)bytes_per_token(s)).text, show_bytes((double)bytes_per_token(s) * e->context).text);
}

/* Of "Q8_0 1, F32 61, Q4_1 210" the type that most tensors have, norms in F32 not counted where there is another. */
static show_text main_type(const char *types) {
    show_text best = { "" };
    char name[40];
    int most = -1, n, length;
    for (; sscanf(types, "%39s %d%n", name, &n, &length) == 2; types += types[length] ? length + 1 : length) {
        if (strcmp(name, "F32") == 0) n = 0;
        if (n <= most) continue;
        most = n;
        memcpy(best.text, name, sizeof name);
    }
    return best;
}

void chat_banner(const chat_session *s) {
    const model_info *m = model_info_of(s->loaded.model);
    const chat *c = model_chat(s->loaded.model, NULL);
    parts p = { .screen = &s->screen };
    part(&p, "%.80s", m->name[0] ? m->name : s->loaded.path);
    part(&p, "%s of %s weights", show_bytes((double)m->weights_bytes).text, main_type(m->types).text);
    part(&p, "%s", chat_name(c));
    if (s->screen.colour) fprintf(stderr, "\033[1m");
    text_one_line(p.text);
    fprintf(stderr, "%s%s\n", p.text, s->screen.colour ? "\033[0m" : "");
    banner_cache(s);
    screen_dim(&s->screen, "/help lists commands, Ctrl-C stops an answer, Ctrl-D leaves");
}

/* --------------------------------------------------------------------------------------------- after answers */

static double per_second(uint64_t n, uint64_t ns) {
    return ns > 0 ? (double)n * 1e9 / (double)ns : 0;
}

/* Why an answer ended, where it did not end by itself. */
static void cost_end(const chat_session *s, const talk_cost *cost) {
    if (cost->finish == FINISH_INTERRUPTED) screen_dim(&s->screen, "stopped here; what was said stays");
    if (cost->finish != FINISH_LENGTH) return;
    if (cost->full) screen_say(&s->screen, "stopped: the context of %s tokens is full",
                               show_count((uint64_t)engine_options_of(s->engine)->context).text);
    else screen_say(&s->screen, "stopped: the answer has the %s tokens that -n allows",
                    show_count((uint64_t)cost->said).text);
}

/* The same parts in more words or fewer. */
static parts cost_parts(const chat_session *s, const talk_cost *cost, bool wordy) {
    parts p = { .screen = &s->screen };
    uint64_t length = (uint64_t)talk_length(s->talk);
    show_text fetched = show_count((uint64_t)cost->fetched);
    part(&p, "read %s, reused %s%s%s%s", show_count((uint64_t)cost->read).text, show_count((uint64_t)cost->reused).text,
         cost->fetched ? " (" : "", cost->fetched ? fetched.text : "",
         cost->fetched ? wordy ? " from the store)" : " stored)" : "");
    part(&p, "first%s %.2f s", wordy ? " word" : "", (double)cost->first_ns / 1e9);
    if (cost->said > 1) part(&p, "%.1f tok/s", per_second((uint64_t)cost->said - 1, cost->rest_ns));
    part(&p, "%s of %s%s", show_count(length).text, show_count((uint64_t)engine_options_of(s->engine)->context).text,
         wordy ? " tokens" : "");
    part(&p, "%s", show_bytes((double)bytes_per_token(s) * (double)length).text);
    return p;
}

void chat_cost(const chat_session *s, const talk_cost *cost) {
    parts p = cost_parts(s, cost, true);
    if (p.left_out) p = cost_parts(s, cost, false);
    cost_end(s, cost);
    screen_dim(&s->screen, "%s", p.text);
}

void chat_totals(const chat_session *s) {
    talk_totals t = talk_counted(s->talk);
    engine_counters count = engine_counted(s->engine);
    uint64_t length = (uint64_t)talk_length(s->talk), all = t.read + t.reused;
    screen_say(&s->screen, "answers    %s, %s tokens said", show_count((uint64_t)t.n_answers).text,
               show_count(t.said).text);
    screen_say(&s->screen, "computed   %s positions", show_count(count.positions_computed).text);
    screen_say(&s->screen, "read       %s tokens of messages and templates", show_count(t.read).text);
    screen_say(&s->screen, "reused     %s tokens out of the cache, %.1f %% of what the answers stand on",
               show_count(t.reused).text, all ? 100 * (double)t.reused / (double)all : 0);
    if (s->store.tier)
        screen_say(&s->screen, "store      %s tokens came from it; %s blocks are written",
                   show_count(count.tokens_fetched).text, show_count(engine_stats(s->engine).n_puts).text);
    screen_say(&s->screen, "time       %.2f s to first words, %.2f s for the rest: %.1f tok/s",
               (double)t.first_ns / 1e9, (double)t.rest_ns / 1e9,
               per_second(t.said > (uint64_t)t.n_answers ? t.said - (uint64_t)t.n_answers : 0, t.rest_ns));
    screen_say(&s->screen, "cache      %s of %s tokens, %s", show_count(length).text,
               show_count((uint64_t)engine_options_of(s->engine)->context).text,
               show_bytes((double)bytes_per_token(s) * (double)length).text);
}

/* ------------------------------------------------------------------------------------------------ answers */

static void print(chat_session *s, const char *bytes, size_t n) {
    if (n == 0 || s->reader_gone) return;
    fwrite(bytes, 1, n, stdout);
    if (fflush(stdout) == 0) return;
    if (errno != EPIPE) s->failed = cli_fail("stdout: %s", strerror(errno));
    s->reader_gone = true;
}

static void print_wrapped(chat_session *s, kvt_status status) {
    if (status != KVT_OK) s->failed = cli_fail("no memory for the text");
    print(s, s->wrapped.at, s->wrapped.n);
    s->wrapped.n = 0;
}

void chat_print_begin(chat_session *s) {
    s->last = 0;
    s->wrap = wrap_of(screen_columns());
}

void chat_print(chat_session *s, const char *bytes, size_t n) {
    if (n == 0) return;
    s->last = bytes[n - 1];
    if (s->screen.tame) print_wrapped(s, wrap_add(&s->wrap, bytes, n, &s->wrapped));
    else print(s, bytes, n);
}

void chat_print_end(chat_session *s) {
    if (s->screen.tame) print_wrapped(s, wrap_end(&s->wrap, &s->wrapped));
    if (s->last != '\n') print(s, "\n", 1);
    wrap_free(&s->wrap);
}
