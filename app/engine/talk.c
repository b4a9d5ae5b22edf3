/* talk.c - see talk.h. */
#include "talk.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "turns.h"

enum { NO_SEQUENCE = -1 };

/* An answer gets at least this share of the context, unless tokens_max is less. */
enum { ROOM_SHARE = 4 };

/* Where turns leave, everything behind them is read again. So that this does not come with each turn from then on, they
 * leave until this share of the context is free beyond what is needed. */
enum { SLACK_SHARE = 8 };

struct talk {
    engine *e;
    const chat *chat;
    int tokens_max; /* of an answer */
    sample_options sampling;
    const char *stop_texts[STOP_TEXTS_MAX];
    int n_stop_texts;
    char *system; /* NULL: the template's own */
    int n_system; /* tokens at the beginning that are the system message's, whatever comes behind */
    turn_list turns;
    reply before; /* what the last turn's answer was, while another one is asked for */
    int seq;
    talk_totals totals;

    /* While an answer is being made. */
    const talk_listener *listener;
    talk_cost *cost;
    engine_counters counted; /* when the answer was asked for */
};

/* Tokens of the turns from this one on. */
static int tokens_from(const talk *t, int first) {
    return turns_tokens(&t->turns, first, t->turns.n - first);
}

/* ------------------------------------------------------------------------------------------------ rendering */

static const model *model_of(const talk *t) {
    return engine_model(t->e);
}

static int context_of(const talk *t) {
    return engine_options_of(t->e)->context;
}

static const char *system_text(const talk *t) {
    return t->system ? t->system : chat_default_system(t->chat);
}

static chat_message message_of(const char *role, const char *text, size_t n) {
    return (chat_message){ .role = role, .text = text ? text : "", .n = n };
}

/* The head of a turn that stands first, behind the system message. */
static kvt_status render_first(const talk *t, const turn *u, token_list *out) {
    chat_message m[2];
    size_t n = 0;
    if (t->system) m[n++] = message_of("system", t->system, strlen(t->system));
    m[n++] = message_of("user", u->user.at, u->user.n);
    return chat_render(t->chat, m, n, true, out);
}

/* The head of turn i, at least 1, which follows the one before. */
static kvt_status render_next(const talk *t, int i, token_list *out) {
    const turn *last = &t->turns.at[i - 1], *u = &t->turns.at[i];
    const token_list *said = &last->reply.said;
    bool ended = said->n > 0 && tokenizer_is_end(model_tokenizer(model_of(t)), said->id[said->n - 1]);
    chat_message m[] = { message_of("assistant", last->reply.text.at, last->reply.text.n),
                         message_of("user", u->user.at, u->user.n) };
    return chat_continue(t->chat, m, 2, 1, ended, true, out);
}

static kvt_status render(const talk *t, int i, token_list *out) {
    return i == 0 ? render_first(t, &t->turns.at[0], out) : render_next(t, i, out);
}

/* How many tokens the system message has for itself: what it renders to alone, as far as a first message leaves that
 * as it is. Some templates put it inside the message. */
static int system_tokens(const talk *t, const token_list *head) {
    token_list alone = { 0 };
    const char *text = system_text(t);
    chat_message m = message_of("system", text, strlen(text));
    size_t n = 0;
    if (text[0] && chat_render(t->chat, &m, 1, false, &alone) == KVT_OK) {
        n = alone.n;
        if (head)
            for (n = 0; n < alone.n && n < head->n && alone.id[n] == head->id[n];) n++;
    }
    token_list_free(&alone);
    return (int)n;
}

/* ------------------------------------------------------------------------- the sequence follows the conversation */

static kvt_status wanted_tokens(const talk *t, token_list *out) {
    for (int i = 0; i < t->turns.n; i++) {
        const turn *u = &t->turns.at[i];
        TRY(tokens_put(out, u->head.id, u->head.n));
        TRY(tokens_put(out, u->reply.said.id, u->reply.said.n));
    }
    /* The last token of an answer that fills the context has no place in it. */
    if (out->n > (size_t)context_of(t)) out->n = (size_t)context_of(t);
    return KVT_OK;
}

/* How many tokens may stay; without a turn those of the system message do. */
static int tokens_common(const talk *t, const token_list *wanted) {
    if (t->seq == NO_SEQUENCE) return 0;
    const int32_t *have = engine_tokens(t->e, t->seq);
    int n = 0, length = engine_length(t->e, t->seq);
    if (t->turns.n == 0) return t->n_system < length ? t->n_system : length;
    while (n < length && n < (int)wanted->n && have[n] == wanted->id[n]) n++;
    return n;
}

static void forget_all(talk *t) {
    if (t->seq != NO_SEQUENCE) engine_end(t->e, t->seq);
    t->seq = NO_SEQUENCE;
}

static kvt_status move_to(talk *t, const token_list *wanted, int common) {
    if (common == 0) {
        forget_all(t);
        return wanted->n ? engine_add(t->e, wanted->id, (int)wanted->n, &t->seq) : KVT_OK;
    }
    if (common < engine_length(t->e, t->seq)) TRY(engine_truncate(t->e, t->seq, common));
    if ((int)wanted->n <= common) return KVT_OK;
    return engine_extend(t->e, t->seq, wanted->id + common, (int)wanted->n - common);
}

/* Make the sequence what the turns say: cut it where it begins to differ, append the rest. *common: tokens that stayed,
 * NULL where nobody asks; a cut in a block of codes costs more of them than the last one, which is always computed
 * anew. */
static kvt_status settle(talk *t, int *common, error_text *err) {
    token_list wanted = { 0 };
    kvt_status status = wanted_tokens(t, &wanted);
    int n = 0, lost = 0;
    if (status == KVT_OK) {
        n = tokens_common(t, &wanted);
        int held = talk_cached(t) < n ? talk_cached(t) : n;
        status = move_to(t, &wanted, n);
        lost = held - talk_cached(t);
    }
    token_list_free(&wanted);
    if (common) *common = lost > 1 ? n - (lost - 1) : n;
    if (status == KVT_OK) return KVT_OK;
    forget_all(t); /* what it holds is not known: the next change reads everything again */
    return engine_fail(err, status, "the conversation cannot be put into the cache: %s", kvt_status_text(status));
}

/* ------------------------------------------------------------------------------------------ who has to leave */

int talk_room(const talk *t) {
    int share = context_of(t) / ROOM_SHARE;
    if (share < 1) share = 1;
    return t->tokens_max < share ? t->tokens_max : share;
}

/* The fewest turns that have to go so that the others and `room` fit, with slack if any goes and one can stay beside
 * the last, and the first one's head as it is then.
 * KVT_E_LIMIT: not even the last one alone does; *need says what it takes. */
static kvt_status find_room(const talk *t, int room, int *n_gone, token_list *head, int *need) {
    int rest = tokens_from(t, 0), most = context_of(t) - room;
    for (int k = 0; k < t->turns.n; rest -= turns_tokens(&t->turns, k++, 1)) {
        int behind = rest - (int)t->turns.at[k].head.n; /* the first head */
        int slack = k > 0 && k + 1 < t->turns.n ? context_of(t) / SLACK_SHARE : 0;
        if (behind > most && k + 1 < t->turns.n) continue;
        head->n = 0;
        TRY(render_first(t, &t->turns.at[k], head));
        *need = (int)head->n + behind;
        *n_gone = k;
        if (*need <= most - slack) return KVT_OK;
    }
    return KVT_E_LIMIT;
}

static kvt_status refuse(const talk *t, int room, int need, error_text *err) {
    return engine_fail(err, KVT_E_LIMIT,
                       "%s does not fit: it takes %d tokens with the system message, and the context of %d has room "
                       "for %d%s",
                       room ? "the message" : "the last turn", need, context_of(t), context_of(t) - room,
                       room ? " beside an answer" : "");
}

/* Let the oldest turns go until the rest fits with `room` tokens beside it, and read what moved again. n_new: turns at
 * the end that the cache has never seen, which therefore are not read "again". */
static kvt_status make_room(talk *t, int room, int n_new, talk_change *change, error_text *err) {
    token_list head = { 0 };
    int n_gone = 0, need = 0, common = 0;
    *change = (talk_change){ 0 };
    kvt_status status = find_room(t, room, &n_gone, &head, &need);
    if (status != KVT_OK) {
        token_list_free(&head);
        if (status == KVT_E_LIMIT) return refuse(t, room, need, err);
        return engine_fail(err, status, "no memory for the conversation");
    }
    change->n_turns = (size_t)n_gone;
    int before = tokens_from(t, 0);
    turns_drop_first(&t->turns, n_gone);
    token_list_free(&t->turns.at[0].head);
    t->turns.at[0].head = head;
    t->n_system = system_tokens(t, &head);
    change->n_tokens = before - tokens_from(t, 0);
    TRY(settle(t, &common, err));
    int known = n_new < t->turns.n ? t->turns.n - n_new : 0;
    int again = tokens_from(t, 0) - tokens_from(t, known) - common;
    change->n_again = again > 0 ? again : 0;
    return KVT_OK;
}

/* ----------------------------------------------------------------------------------------- open and close */

static kvt_status set_system(talk *t, const char *system) {
    char *copy = system ? strdup(system) : NULL;
    if (system && !copy) return KVT_E_MEMORY;
    free(t->system);
    t->system = copy;
    return KVT_OK;
}

/* The system message alone has to leave room for a message and an answer. */
static kvt_status check_system(const talk *t, error_text *err) {
    int n = system_tokens(t, NULL), most = context_of(t) - talk_room(t) - 1;
    if (most < 0) most = 0;
    if (n <= most) return KVT_OK;
    return engine_fail(err, KVT_E_LIMIT, "the system message has %d tokens, and the context of %d has room for %d", n,
                       context_of(t), most);
}

/* The template's own stop text is one like the user's. */
static void stop_texts_put(talk *t, const talk_options *opt) {
    const char *own = chat_stop(t->chat);
    for (int i = 0; i < opt->n_stop_texts; i++) t->stop_texts[t->n_stop_texts++] = opt->stop_texts[i];
    if (own) t->stop_texts[t->n_stop_texts++] = own;
}

kvt_status talk_open(talk **out, engine *e, const talk_options *opt, error_text *err) {
    *out = NULL;
    if (opt->n_stop_texts >= STOP_TEXTS_MAX)
        return engine_fail(err, KVT_E_ARGUMENT, "%d stop texts: fewer than %d", opt->n_stop_texts, STOP_TEXTS_MAX);
    talk *t = calloc(1, sizeof *t);
    if (!t) return engine_fail(err, KVT_E_MEMORY, "no memory for a conversation");
    t->e = e;
    t->chat = model_chat(engine_model(e), NULL);
    t->seq = NO_SEQUENCE;
    t->sampling = opt->sampling;
    stop_texts_put(t, opt);
    t->tokens_max = opt->tokens_max > 0 ? opt->tokens_max : context_of(t);
    kvt_status status = set_system(t, opt->system);
    if (status != KVT_OK) engine_fail(err, status, "no memory for the system message");
    else status = check_system(t, err);
    if (status != KVT_OK) {
        talk_close(t);
        return status;
    }
    t->n_system = system_tokens(t, NULL);
    *out = t;
    return KVT_OK;
}

void talk_close(talk *t) {
    if (!t) return;
    forget_all(t);
    turns_free(&t->turns);
    reply_free(&t->before);
    free(t->system);
    free(t);
}

/* -------------------------------------------------------------------------------------------------- changes */

static turn *last_of(const talk *t) {
    return t->turns.n ? &t->turns.at[t->turns.n - 1] : NULL;
}

/* Is there a message that waits for its answer? */
static bool waits(const talk *t) {
    const turn *last = last_of(t);
    return last && !last->reply.there;
}

static kvt_status add_message(talk *t, const char *text, size_t n) {
    turn *u = turns_add(&t->turns);
    if (!u) return KVT_E_MEMORY;
    kvt_status status = utf8_repair(text, n, &u->user);
    if (status == KVT_OK) status = render(t, t->turns.n - 1, &u->head);
    if (status != KVT_OK) turns_drop_last(&t->turns);
    return status;
}

kvt_status talk_say(talk *t, const char *text, size_t n, talk_change *change, error_text *err) {
    *change = (talk_change){ 0 };
    if (waits(t)) return engine_fail(err, KVT_E_STATE, "the last message has no answer yet");
    kvt_status status = add_message(t, text, n);
    if (status != KVT_OK)
        return engine_fail(err, status, "the message of %zu bytes cannot be read: %s", n, kvt_status_text(status));
    status = make_room(t, talk_room(t), 1, change, err);
    if (status != KVT_OK) turns_drop_last(&t->turns);
    return status;
}

kvt_status talk_again(talk *t, error_text *err) {
    turn *last = last_of(t);
    if (!last) return engine_fail(err, KVT_E_STATE, "there is no message yet");
    if (!last->reply.there) return KVT_OK;
    reply_free(&t->before);
    t->before = last->reply;
    last->reply = (reply){ 0 };
    last->n_again++;
    return settle(t, NULL, err);
}

kvt_status talk_undo(talk *t, error_text *err) {
    if (t->turns.n == 0) return engine_fail(err, KVT_E_STATE, "there is no turn to take back");
    turns_drop_last(&t->turns);
    return settle(t, NULL, err);
}

kvt_status talk_system(talk *t, const char *system, talk_change *change, error_text *err) {
    char *old = t->system;
    *change = (talk_change){ 0 };
    t->system = NULL;
    kvt_status status = set_system(t, system);
    if (status != KVT_OK) engine_fail(err, status, "no memory for the system message");
    else status = check_system(t, err);
    if (status == KVT_OK && t->turns.n > 0) status = make_room(t, 0, 0, change, err);
    if (status == KVT_OK && t->turns.n == 0) {
        t->n_system = system_tokens(t, NULL);
        forget_all(t);
    }
    if (status == KVT_OK) free(old);
    else {
        free(t->system);
        t->system = old;
    }
    return status;
}

/* ---------------------------------------------------------------------------------------------- an answer */

static void on_text(void *ctx, int index, const char *bytes, size_t n) {
    talk *t = ctx;
    (void)index;
    if (t->listener->on_text) t->listener->on_text(t->listener->ctx, bytes, n);
}

static void on_progress(void *ctx, int64_t done, int64_t total) {
    talk *t = ctx;
    if (t->listener->on_progress) t->listener->on_progress(t->listener->ctx, done, total);
}

/* The first token tells what reading took. */
static void on_token(void *ctx, int index, int32_t token) {
    talk *t = ctx;
    (void)index, (void)token;
    if (t->cost->said++ > 0) return;
    engine_counters now = engine_counted(t->e);
    t->cost->read = (int)(now.positions_computed - t->counted.positions_computed);
    t->cost->fetched = (int)(now.tokens_fetched - t->counted.tokens_fetched);
}

/* Another answer to the same message is another draw of the same seed. */
static generate_options asking(talk *t) {
    return (generate_options){
        .n_samples = 1,
        .draw = (uint64_t)last_of(t)->n_again,
        .tokens_max = t->tokens_max,
        .sampling = t->sampling,
        .on_token = on_token,
        .on_text = on_text,
        .on_progress = on_progress,
        .ctx = t,
        .stop_texts = t->stop_texts,
        .n_stop_texts = t->n_stop_texts,
        .stop = t->listener->stop,
    };
}

/* No answer came: what was there before it is there again. */
static kvt_status retract(talk *t, error_text *err) {
    if (t->before.there) {
        reply_free(&last_of(t)->reply); /* what there was of another one */
        last_of(t)->reply = t->before;
        t->before = (reply){ 0 };
    } else {
        turns_drop_last(&t->turns);
    }
    return settle(t, NULL, err);
}

/* Tokens of a stop text are no part of the answer, and do not stay in the sequence. */
static kvt_status keep(talk *t, answer *a, error_text *err) {
    reply *r = &last_of(t)->reply;
    if (tokens_put(&r->said, a->tokens, (size_t)a->n_shown) != KVT_OK)
        return engine_fail(err, KVT_E_MEMORY, "no memory for an answer of %d tokens", a->n_tokens);
    r->there = true;
    r->finish = a->finish;
    r->text = a->text;
    a->text = (byte_list){ 0 };
    reply_free(&t->before);
    return settle(t, NULL, err);
}

static void add_up(talk *t, const talk_cost *cost) {
    t->totals.n_answers++;
    t->totals.read += (uint64_t)cost->read;
    t->totals.reused += (uint64_t)cost->reused;
    t->totals.said += (uint64_t)cost->said;
    t->totals.first_ns += cost->first_ns;
    t->totals.rest_ns += cost->rest_ns;
}

kvt_status talk_answer(talk *t, const talk_listener *listener, talk_cost *cost, error_text *err) {
    answer a = { 0 };
    *cost = (talk_cost){ 0 };
    if (!waits(t)) return engine_fail(err, KVT_E_STATE, "no message waits for an answer");
    t->listener = listener;
    t->cost = cost;
    t->counted = engine_counted(t->e);
    generate_options g = asking(t);
    int length = engine_length(t->e, t->seq);
    kvt_status status = generate_on(t->e, t->seq, &g, &a, err);
    cost->finish = a.finish;
    if (status == KVT_OK && a.n_tokens > 0) {
        cost->reused = length - cost->read;
        cost->first_ns = a.first_ns;
        cost->rest_ns = a.last_ns - a.first_ns;
        cost->full = a.finish == FINISH_LENGTH && a.n_tokens < t->tokens_max;
        add_up(t, cost);
        status = keep(t, &a, err);
    }
    if (!last_of(t)->reply.there) {
        kvt_status back = retract(t, status == KVT_OK ? err : NULL);
        if (status == KVT_OK) status = back;
    }
    answers_free(&a, 1);
    return status;
}

/* -------------------------------------------------------------------------------------------- from elsewhere */

/* Do its ids spell this text, with no control token among them but an end token at the end? */
static bool spells(const tokenizer *tok, const talk_turn_given *g, const byte_list *wanted) {
    byte_list raw = { 0 }, text = { 0 };
    bool good = g->n_tokens > 0;
    for (size_t i = 0; i < g->n_tokens && good; i++)
        good = tokenizer_bytes(tok, g->tokens[i], &(size_t){ 0 }) &&
               (!tokenizer_is_control(tok, g->tokens[i]) ||
                (i + 1 == g->n_tokens && tokenizer_is_end(tok, g->tokens[i])));
    good = good && tokenizer_decode(tok, g->tokens, g->n_tokens, false, &raw) == KVT_OK &&
           utf8_repair(raw.at, raw.n, &text) == KVT_OK && text.n == wanted->n &&
           (text.n == 0 || memcmp(text.at, wanted->at, text.n) == 0);
    byte_list_free(&raw);
    byte_list_free(&text);
    return good;
}

static kvt_status load_turn(talk *t, const talk_turn_given *g) {
    const tokenizer *tok = model_tokenizer(model_of(t));
    TRY(add_message(t, g->user, g->n_user));
    reply *r = &last_of(t)->reply;
    r->there = true;
    r->finish = g->finish;
    TRY(utf8_repair(g->answer, g->n_answer, &r->text));
    if (spells(tok, g, &r->text)) return tokens_put(&r->said, g->tokens, g->n_tokens);
    return tokenizer_encode(tok, r->text.at ? r->text.at : "", r->text.n, false, &r->said);
}

static kvt_status load_all(talk *t, const char *system, const talk_turn_given *turns, size_t n, talk_change *change,
                           error_text *err) {
    kvt_status status = set_system(t, system);
    for (size_t i = 0; i < n && status == KVT_OK; i++) status = load_turn(t, &turns[i]);
    if (status != KVT_OK) return engine_fail(err, status, "no memory for a conversation of %zu turns", n);
    TRY(check_system(t, err));
    t->n_system = system_tokens(t, NULL);
    return n ? make_room(t, 0, (int)n, change, err) : settle(t, NULL, err);
}

kvt_status talk_load(talk *t, const char *system, const talk_turn_given *turns, size_t n, talk_change *change,
                     error_text *err) {
    turn_list old_turns = t->turns;
    char *old_system = t->system;
    *change = (talk_change){ 0 };
    t->turns = (turn_list){ 0 };
    t->system = NULL;
    kvt_status status = load_all(t, system, turns, n, change, err);
    if (status == KVT_OK) {
        turns_free(&old_turns);
        free(old_system);
        reply_free(&t->before);
        return KVT_OK;
    }
    turns_free(&t->turns);
    free(t->system);
    t->turns = old_turns;
    t->system = old_system;
    t->n_system = system_tokens(t, t->turns.n ? &t->turns.at[0].head : NULL);
    settle(t, NULL, NULL);
    return status;
}

/* --------------------------------------------------------------------------------------------------- looking */

const char *talk_role_name(talk_role role) {
    static const char *const names[] = { "system", "user", "assistant" };
    return names[role];
}

static bool has_system(const talk *t) {
    return system_text(t)[0] != 0;
}

int talk_n_messages(const talk *t) {
    return has_system(t) + 2 * t->turns.n - waits(t);
}

static talk_message system_at(const talk *t) {
    const char *text = system_text(t);
    return (talk_message){ .role = TALK_SYSTEM, .text = text, .n = strlen(text), .n_tokens = t->n_system, .turn = -1 };
}

talk_message talk_at(const talk *t, int i) {
    assert(i >= 0 && i < talk_n_messages(t));
    if (has_system(t) && i-- == 0) return system_at(t);
    const turn *u = &t->turns.at[i / 2];
    int first = tokens_from(t, 0) - tokens_from(t, i / 2), taken = i < 2 ? t->n_system : 0;
    talk_message m = { .turn = i / 2, .first = first + taken, .n_tokens = (int)u->head.n - taken };
    if (i % 2 == 0) {
        m.role = TALK_USER;
        m.text = u->user.at ? u->user.at : "";
        m.n = u->user.n;
        return m;
    }
    m.role = TALK_ANSWER;
    m.first = first + (int)u->head.n;
    m.n_tokens = (int)u->reply.said.n;
    m.text = u->reply.text.at ? u->reply.text.at : "";
    m.n = u->reply.text.n;
    m.finish = u->reply.finish;
    m.tokens = u->reply.said.id;
    return m;
}

const char *talk_system_given(const talk *t) {
    return t->system;
}

int talk_n_turns(const talk *t) {
    return t->turns.n;
}

int talk_sequence(const talk *t) {
    return t->seq;
}

int talk_length(const talk *t) {
    return t->seq == NO_SEQUENCE ? 0 : engine_length(t->e, t->seq);
}

int talk_cached(const talk *t) {
    return t->seq == NO_SEQUENCE ? 0 : engine_cached(t->e, t->seq);
}

talk_totals talk_counted(const talk *t) {
    return t->totals;
}
