/* chat_file.c - conversations in files: JSON with the roles and texts that other programs know, what kvtile needs to go
 * on in the same bits beside them. */
#include "chat.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"

/* {"kvtile_chat": 1, "model": "...", "options": {...},
 *  "messages": [{"role": "system", "content": "..."}, {"role": "user", "content": "..."},
 *               {"role": "assistant", "content": "...", "finish_reason": "stop", "tokens": [...]}, ...]}
 * A system message stands there only if one was given; the template's own comes by itself. */
enum { VERSION = 1 };

/* No conversation is that long; a file that is has been mistaken for one. */
static const long FILE_BYTES_MAX = 32L << 20;

/* --------------------------------------------------------------------------------------------------- save */

static json_t *message_json(const talk_message *m) {
    json_t *o = json_pack("{s:s, s:o}", "role", talk_role_name(m->role), "content", json_bytes(m->text, m->n));
    if (!o || m->role != TALK_ANSWER) return o;
    json_t *tokens = json_array();
    for (int i = 0; i < m->n_tokens; i++) json_array_append_new(tokens, json_integer(m->tokens[i]));
    json_object_set_new(o, "finish_reason", json_string(finish_name(m->finish)));
    json_object_set_new(o, "tokens", tokens);
    return o;
}

/* For whoever reads it: what a chat goes on with is what the command line says then. */
static json_t *options_json(const chat_session *s) {
    const sample_options *o = &s->opt->sampling;
    return json_pack("{s:i, s:i, s:f, s:i, s:f, s:f, s:f, s:f, s:i, s:f, s:f, s:I}", "ctx",
                     engine_options_of(s->engine)->context, "n", s->opt->tokens_max, "temp", o->temp, "top_k", o->top_k,
                     "top_p", o->top_p, "min_p", o->min_p, "typical", o->typical, "repeat_penalty", o->repeat_penalty,
                     "repeat_last", o->repeat_last, "frequency_penalty", o->frequency_penalty, "presence_penalty",
                     o->presence_penalty, "seed", (json_int_t)o->seed);
}

/* One object, compact, behind what is there; takes the object. */
static bool json_add(byte_list *out, json_t *o) {
    char *text = o ? json_dumps(o, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)) : NULL;
    bool good = text && byte_list_add(out, text, strlen(text)) == KVT_OK;
    free(text);
    json_decref(o);
    return good;
}

static bool text_add(byte_list *out, const char *text) {
    return byte_list_add(out, text, strlen(text)) == KVT_OK;
}

/* A line for each message, so that people find their way and other tools see what has changed. */
static bool chat_json(const chat_session *s, byte_list *out) {
    const char *name = model_info_of(s->loaded.model)->name;
    bool good = text_add(out, "{\"kvtile_chat\": 1,\n\"model\": ") && json_add(out, json_bytes(name, strlen(name))) &&
                text_add(out, ",\n\"options\": ") && json_add(out, options_json(s)) &&
                text_add(out, ",\n\"messages\": [");
    const char *between = "\n";
    for (int i = 0; i < talk_n_messages(s->talk) && good; i++) {
        talk_message m = talk_at(s->talk, i);
        if (m.role == TALK_SYSTEM && !talk_system_given(s->talk)) continue;
        good = text_add(out, between) && json_add(out, message_json(&m));
        between = ",\n";
    }
    return good && text_add(out, "\n]}\n");
}

static int text_keep(const char *path, const byte_list *text, bool *replaced) {
    struct stat st;
    *replaced = stat(path, &st) == 0;
    if (*replaced && !S_ISREG(st.st_mode)) return cli_fail("%s: is there already, and is no file", path);
    int why = path_replace(path, text->at, text->n, 0666);
    return why == 0 ? CLI_DONE : cli_fail("%s: %s", path, strerror(why));
}

int chat_save(const chat_session *s, const char *path, bool *replaced) {
    byte_list text = { 0 };
    int status = chat_json(s, &text) ? text_keep(path, &text, replaced)
                                     : cli_fail("%s: no memory for the JSON text", path);
    byte_list_free(&text);
    return status;
}

/* --------------------------------------------------------------------------------------------------- load */

/* A conversation as it lies in a JSON tree, which outlives it. */
typedef struct saved {
    const char *path, *system;
    talk_turn_given *turns; /* [n_turns] */
    size_t n_turns;
    int32_t *ids; /* of all answers */
} saved;

static int refuse(const saved *s, const char *why) {
    return cli_fail("%s: is no saved chat: %s", s->path, why);
}

static int refuse_message(const saved *s, size_t i, const char *why) {
    return cli_fail("%s: is no saved chat: message %zu %s", s->path, i + 1, why);
}

static finish_reason finish_of(const json_t *name) {
    for (int f = FINISH_STOP; f <= FINISH_INTERRUPTED; f++)
        if (json_is_string(name) && strcmp(json_string_value(name), finish_name((finish_reason)f)) == 0)
            return (finish_reason)f;
    return FINISH_STOP;
}

/* Ids that are none make the list none: the text is encoded anew. */
static size_t ids_of(const json_t *list, int32_t *out) {
    size_t n = json_array_size(list);
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(list, i);
        json_int_t value = json_integer_value(id);
        if (!json_is_integer(id) || value < 0 || value > INT32_MAX) return 0;
        out[i] = (int32_t)value;
    }
    return n;
}

static size_t count_ids(const json_t *messages) {
    size_t n = 0, i;
    json_t *m;
    json_array_foreach(messages, i, m) n += json_array_size(json_object_get(m, "tokens"));
    return n;
}

/* Message i, which continues what was read before it; *n_ids of the ids are taken. */
static int take_message(saved *s, size_t i, const json_t *m, size_t *n_ids) {
    const json_t *role = json_object_get(m, "role"), *content = json_object_get(m, "content");
    if (!json_is_string(role) || !json_is_string(content)) return refuse_message(s, i, "has no role or no content");
    const char *who = json_string_value(role), *text = json_string_value(content);
    size_t n = json_string_length(content);
    talk_turn_given *last = s->n_turns ? &s->turns[s->n_turns - 1] : NULL;
    bool answered = !last || last->answer;
    if (strcmp(who, "system") == 0 && i == 0) {
        if (strlen(text) != n) return refuse_message(s, i, "holds a NUL, which a system message may not");
        s->system = text;
    } else if (strcmp(who, "user") == 0 && answered) {
        s->turns[s->n_turns++] = (talk_turn_given){ .user = text, .n_user = n };
    } else if (strcmp(who, "assistant") == 0 && !answered) {
        last->answer = text;
        last->n_answer = n;
        last->tokens = s->ids + *n_ids;
        last->n_tokens = ids_of(json_object_get(m, "tokens"), s->ids + *n_ids);
        last->finish = finish_of(json_object_get(m, "finish_reason"));
        *n_ids += last->n_tokens;
    } else {
        return refuse_message(s, i, "is out of turn: a system message first, if any, then user and assistant by turns");
    }
    return CLI_DONE;
}

static int take_all(saved *s, const json_t *root) {
    const json_t *messages = json_object_get(root, "messages");
    json_int_t version = json_integer_value(json_object_get(root, "kvtile_chat"));
    if (version == 0 || !json_is_array(messages)) return refuse(s, "kvtile_chat and messages are missing");
    if (version != VERSION)
        return cli_fail("%s: is a chat of version %lld, this program reads %d", s->path, (long long)version, VERSION);
    size_t n = json_array_size(messages), n_ids = 0, i;
    s->turns = calloc(n + 1, sizeof *s->turns);
    s->ids = calloc(count_ids(messages) + 1, sizeof *s->ids);
    if (!s->turns || !s->ids) return cli_fail("%s: no memory for %zu messages", s->path, n);
    json_t *m;
    json_array_foreach(messages, i, m) if (take_message(s, i, m, &n_ids) != CLI_DONE) return CLI_FAILED;
    if (s->n_turns && !s->turns[s->n_turns - 1].answer) return refuse(s, "the last message has no answer");
    return CLI_DONE;
}

/* The file's tree; NULL: told. */
static json_t *tree_read(const char *path) {
    struct stat st;
    json_error_t why;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0) {
        cli_fail("%s: %s", path, strerror(errno));
        if (fd >= 0) close(fd);
        return NULL;
    }
    json_t *root = NULL;
    if (!S_ISREG(st.st_mode)) cli_fail("%s: is no file", path);
    else if (st.st_size > FILE_BYTES_MAX) cli_fail("%s: has %lld bytes, a chat has at most %ld", path,
                                                   (long long)st.st_size, FILE_BYTES_MAX);
    else if (!(root = json_loadfd(fd, JSON_ALLOW_NUL, &why)))
        cli_fail("%s: is no saved chat: line %d: %s", path, why.line, why.text);
    close(fd);
    return root;
}

/* Another model or other ways of drawing are no fault, and no secret. */
static void tell_differences(const chat_session *s, const json_t *root) {
    const char *name = json_string_value(json_object_get(root, "model")), *own = model_info_of(s->loaded.model)->name;
    if (name && strcmp(name, own) != 0) cli_warn("the chat was saved with %.100s, this is %.100s", name, own);
}

int chat_load(chat_session *s, const char *path, talk_change *change) {
    error_text err;
    saved from = { .path = path };
    json_t *root = tree_read(path);
    if (!root) return CLI_FAILED;
    int status = take_all(&from, root);
    if (status == CLI_DONE) tell_differences(s, root);
    if (status == CLI_DONE &&
        talk_load(s->talk, from.system, from.turns, from.n_turns, change, &err) != KVT_OK)
        status = cli_fail("%s: %s", path, err.text);
    free(from.turns);
    free(from.ids);
    json_decref(root);
    return status;
}
