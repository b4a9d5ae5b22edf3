/* chat.c - kvtile chat: messages in, answers out, and a conversation that stays in the cache between them. */
#include "chat.h"

#include <string.h>

#include "base/sys.h"
#include "chat_signal.h"

/* ------------------------------------------------------------------------------------------------- options */

static const option option_table[] = {
    OPTION_MODEL(chat_options),
    OPTION_HEAD("Conversation"),
    { "--system", "TEXT", OPTION_TEXT, offsetof(chat_options, system),
      "the system message (default: the template's own, if it has one)" },
    { "--load", "FILE", OPTION_FILE, offsetof(chat_options, load), "go on with a conversation that /save wrote",
      .files = "json" },
    { "--session", "NAME", OPTION_TEXT, offsetof(chat_options, session),
      "keep the conversation under this name after each turn, and go on with it where it is there",
      .more = "It is kept in the store's folder, as sessions/NAME.json: that of --store, else $KVTILE_STORE, else "
              "~/.cache/kvtile/store." },
    { "-n", "TOKENS", OPTION_INT, offsetof(chat_options, tokens_max),
      "most tokens of an answer (default: what the context has room for)", 1, 16777216 },
    OPTION_SAMPLING(chat_options),
    OPTION_SAMPLING_TEXTS(chat_options),
    OPTION_CACHE_ALL(chat_options),
    OPTION_STORE(chat_options),
    { "--ctx", "TOKENS", OPTION_INT, offsetof(chat_options, common.ctx),
      "longest conversation (default: the model's, as far as half of the memory goes)", 1, 16777216,
      .more = "Where a new message and room for its answer do not fit, the oldest turns leave, and it says so." },
    OPTION_MACHINE(chat_options),
    OPTION_CHUNK(chat_options),
};

static const command_example examples[] = {
    { "chat", "Talk with the default model." },
    { "chat -m model.gguf --system \"Answer in one sentence.\" --temp 0.7 --seed 3",
      "Another model, another voice; the same seed draws the same answers." },
    { "chat --session garden", "Go on tomorrow with the same command, without reading all of it again." },
    { "chat --load notes.json --ctx 4096", "Go on where /save notes.json left off." },
};

static void chat_defaults(void *options) {
    *(chat_options *)options = (chat_options){
        .common = common_options_default(),
        .sampling = sample_options_default(),
    };
}

/* --------------------------------------------------------------------------------------------------- engine */

enum { CONTEXT_LEAST = 64 };

/* A context that --cache-size and half of the memory are enough for, where this one is too long; otherwise this one. */
static int context_less(const engine_options *e, const model *m) {
    kvt_bytes_info need = { 0 };
    kvt_status status = engine_bytes(m, e, &need);
    size_t held = need.n_blocks * (size_t)e->block_tokens;
    if (status == KVT_E_LIMIT && e->cache_bytes && held > 0 && held < (size_t)e->context) return (int)held;
    bool too_large = status == KVT_E_LIMIT || (status == KVT_OK && need.bytes_total > sys_memory_total() / 2);
    return too_large ? e->context / 2 : e->context;
}

/* Without --ctx the model's context, or what there is memory for. */
static engine_options engine_wanted(const chat_session *s) {
    engine_options e = common_engine_options(&s->opt->common);
    e.context = s->opt->common.ctx;
    if (e.context > 0) return e;
    e.context = e.rope_context = model_context(model_config_of(s->loaded.model));
    for (int less; (less = context_less(&e, s->loaded.model)) < e.context && less >= CONTEXT_LEAST;) e.context = less;
    return e;
}

static int engine_prepare(chat_session *s) {
    engine_options e = engine_wanted(s);
    int trained = model_context(model_config_of(s->loaded.model));
    block_store_give(&s->store, &e);
    if (loaded_engine(&s->engine, &s->loaded, &e) != CLI_DONE) return CLI_FAILED;
    if (e.context > trained)
        cli_warn("--ctx %d is more than the %d tokens that the model was trained on", e.context, trained);
    block_store_warn_small(&s->store, s->engine);
    return CLI_DONE;
}

/* -------------------------------------------------------------------------------------------------- answers */

static void on_text(void *ctx, const char *bytes, size_t n) {
    chat_session *s = ctx;
    progress_clear(&s->progress);
    /* Blanks in front belong to the template's habits, not to what is said. */
    while (s->last == 0 && n > 0 && (*bytes == ' ' || *bytes == '\n')) bytes++, n--;
    chat_print(s, bytes, n);
    if (s->reader_gone) chat_stop_answer = 1;
}

static void on_progress(void *ctx, int64_t done, int64_t total) {
    chat_session *s = ctx;
    progress_show(&s->progress, done, total);
}

void chat_answer(chat_session *s) {
    error_text err = { "" };
    talk_cost cost;
    talk_listener listener = { .on_text = on_text, .on_progress = on_progress, .ctx = s, .stop = &chat_stop_answer };
    chat_stop_answer = chat_leave;
    chat_print_begin(s);
    s->progress = progress_of("reading");
    lines_quiet(s->lines, true);
    kvt_status status = talk_answer(s->talk, &listener, &cost, &err);
    lines_quiet(s->lines, false);
    progress_clear(&s->progress);
    if (cost.said > 0) chat_print_end(s);
    if (s->reader_gone) return;
    if (status != KVT_OK) s->failed = cli_fail("%s; the conversation is as it was", err.text);
    else if (cost.said > 0) chat_cost(s, &cost);
    else screen_dim(&s->screen, "stopped before the first word; nothing has changed");
    if (s->screen.terminal) fputc('\n', stderr);
}

void chat_tell_change(chat_session *s, const talk_change *change) {
    show_text n_tokens = show_count((uint64_t)change->n_tokens);
    if (change->n_turns == 1)
        screen_say(&s->screen, "the oldest turn (%s tokens) left the conversation to make room", n_tokens.text);
    if (change->n_turns > 1)
        screen_say(&s->screen, "the %s oldest turns (%s tokens) left the conversation to make room",
                   show_count(change->n_turns).text, n_tokens.text);
    if (change->n_again > 0)
        screen_say(&s->screen, "%s tokens stand elsewhere now and are read again",
                   show_count((uint64_t)change->n_again).text);
}

/* ------------------------------------------------------------------------------------------------- messages */

static bool is_blank(const byte_list *text) {
    for (size_t i = 0; i < text->n; i++)
        if (!strchr(" \t\n\r", text->at[i]) || !text->at[i]) return false;
    return true;
}

static void say(chat_session *s, const char *text, size_t n) {
    error_text err;
    talk_change change;
    if (talk_say(s->talk, text, n, &change, &err) != KVT_OK) {
        s->failed = cli_fail("%s", err.text);
        return;
    }
    chat_tell_change(s, &change);
    chat_answer(s);
}

/* One line that begins with a slash is a command, unless there are two. */
static void take_message(chat_session *s, bool literal) {
    byte_list *m = &s->message;
    bool slash = !literal && m->at[0] == '/' && !memchr(m->at, '\n', m->n);
    if (slash && !(m->n > 1 && m->at[1] == '/')) chat_command(s, m->at);
    else say(s, m->at + slash, m->n - slash);
}

/* Ctrl-C twice at an empty prompt is somebody who wants to leave. */
static bool talk_on(chat_session *s, bool *asked) {
    bool literal = false;
    lines_status status = message_read(s->lines, &s->message, &literal);
    bool asks = status == LINES_REFUSED, leaves = asks && *asked;
    *asked = asks;
    if (asks && !leaves) screen_dim(&s->screen, "Ctrl-C again or Ctrl-D leaves");
    if (status == LINES_MEMORY) s->failed = cli_fail("no memory for so long a message");
    if (asks || status == LINES_CLEARED || status == LINES_MEMORY) return !leaves;
    if (status != LINES_ONE) return false;
    if (is_blank(&s->message)) return true;
    if (byte_list_add(&s->message, "", 1) != KVT_OK) return true;
    s->message.n--;
    lines_remember(s->lines, s->message.at);
    take_message(s, literal);
    session_keep(s);
    return true;
}

/* ----------------------------------------------------------------------------------------------- the session */

static int load_restore(chat_session *s) {
    talk_change change;
    if (chat_load(s, s->opt->load, &change) != CLI_DONE) return CLI_FAILED;
    change.n_again = 0; /* all of it is new here */
    chat_tell_change(s, &change);
    return CLI_DONE;
}

/* A conversation that came back has its own system message; the one asked for now goes before it. */
static int system_restore(chat_session *s) {
    error_text err;
    talk_change change;
    const char *given = talk_system_given(s->talk), *wanted = s->opt->system;
    if (!wanted || (given && strcmp(given, wanted) == 0)) return CLI_DONE;
    if (talk_system(s->talk, wanted, &change, &err) != KVT_OK) return cli_fail("%s", err.text);
    change.n_again = 0;
    chat_tell_change(s, &change);
    screen_dim(&s->screen, "from here on with the system message of --system");
    return CLI_DONE;
}

static int talk_prepare(chat_session *s) {
    error_text err;
    talk_options opt = { .system = s->opt->system, .tokens_max = s->opt->tokens_max, .sampling = s->opt->sampling };
    opt.sampling.bias = s->biases.at;
    opt.sampling.n_bias = s->biases.n;
    opt.stop_texts = s->opt->texts.stop.text;
    opt.n_stop_texts = s->opt->texts.stop.n;
    model_chat(s->loaded.model, &err);
    if (err.text[0]) cli_warn("%s", err.text);
    if (talk_open(&s->talk, s->engine, &opt, &err) != KVT_OK) return cli_fail("%s", err.text);
    int status = s->opt->load ? load_restore(s) : session_restore(s);
    return status == CLI_DONE ? system_restore(s) : status;
}

static int session(chat_session *s) {
    bool asked = false;
    s->screen = screen_find();
    int status = loaded_open(&s->loaded, &s->opt->common);
    if (status == CLI_DONE) status = session_open(s);
    if (status == CLI_DONE) status = engine_prepare(s);
    if (status == CLI_DONE) status = talk_prepare(s);
    if (status != CLI_DONE) return status;
    s->lines = lines_open(s->screen.terminal);
    if (!s->lines) return cli_fail("no memory for the line editor");
    chat_signals_catch(s->screen.terminal);
    if (s->screen.terminal) chat_banner(s);
    while (!s->leave && !s->reader_gone && !chat_leave && talk_on(s, &asked)) continue;
    if (chat_leave) return CLI_INTERRUPTED;
    /* Somebody at a terminal has seen what failed, and went on. */
    return s->screen.terminal && !s->reader_gone ? CLI_DONE : s->failed;
}

static int chat_run(const void *options) {
    chat_session s = { .opt = options };
    int status = session_options_check(s.opt);
    if (status != OPTIONS_GO) return status;
    status = sampling_texts_read("chat", &s.opt->texts, &s.biases);
    if (status != OPTIONS_GO) return status;
    status = session(&s);
    lines_close(s.lines);
    byte_list_free(&s.message);
    byte_list_free(&s.wrapped);
    talk_close(s.talk);
    engine_close(s.engine);
    block_store_close(&s.store);
    loaded_close(&s.loaded);
    return status;
}

const command command_chat = {
    .name = "chat",
    .summary = "talk, keeping the cache between turns",
    .usage = "[-m MODEL] [OPTIONS]",
    .about = "Talk with a model. What was said stays in the cache, so each turn computes its own tokens and no others.",
    .more = "On a terminal lines are edited and remembered; without one each line of stdin is a message, and stdout "
            "gets the answers alone. A line that ends in a backslash goes on, \"\"\" opens and closes a message of "
            "several lines, and a line that begins with a slash is a command: /help lists them, // begins a message "
            "with a slash.\n\n"
            "Ctrl-C stops an answer; what was said stays. At the prompt it clears the line, and twice at an empty one "
            "it leaves, as Ctrl-D does.\n\n"
            "Where a message and room for its answer (-n tokens, at most a quarter of the context) do not fit, the "
            "oldest turns leave and the system message stays; a line says which, and how many tokens have to be read "
            "again. So that this does not come with every message, they leave until an eighth of the context is free "
            "beyond that.\n\n"
            "Lines are kept in $XDG_STATE_HOME/kvtile/history (~/.local/state), readable by their owner alone.",
    COMMAND_OPTIONS(option_table),
    COMMAND_EXAMPLES(examples),
    .options_bytes = sizeof(chat_options),
    .defaults = chat_defaults,
    .run = chat_run,
};
