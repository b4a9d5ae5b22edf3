/* chat_store.c - the store of a chat, and its session: a conversation that is kept in the store's folder after each
 * turn and goes on where it was. Leaves the file's bytes to chat_file.c. */
#include "chat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_MOST = 100 };

static bool is_name(const char *name) {
    static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t n = strlen(name);
    return n > 0 && n <= NAME_MOST && name[0] != '.' && strspn(name, LETTERS) == n;
}

int session_options_check(const chat_options *o) {
    if (o->session && !is_name(o->session))
        return cli_usage("chat", "\"%.*s\" is no name for a session: up to %d letters, digits, \"_\", \"-\" and \".\", "
                         "which does not begin it", NAME_MOST, o->session, NAME_MOST);
    if (o->session && o->load)
        return cli_usage("chat", "--session or --load, not both: /load puts a saved chat into a session");
    if (o->session && o->common.kind != KVT_PAGED) return cli_usage("chat", "--session goes with --cache paged");
    return o->session ? OPTIONS_GO : block_store_options_check("chat", &o->store, &o->common);
}

/* As given, else $KVTILE_STORE, else the user's own. */
static const char *folder_of(const chat_options *o, char path[PATH_BYTES]) {
    if (o->store.folder || !o->session) return o->store.folder;
    const char *folder = block_store_folder(path);
    if (folder == path) path_folders_make(path);
    return folder;
}

int session_open(chat_session *s) {
    const chat_options *o = s->opt;
    block_store_options where = { folder_of(o, s->folder), o->store.bytes_max };
    if (o->session && !where.folder)
        return cli_fail("no folder for a session: neither --store nor KVTILE_STORE nor HOME says where");
    if (block_store_open(&s->store, &where) != CLI_DONE) return CLI_FAILED;
    if (!o->session) return CLI_DONE;
    int n = snprintf(s->kept, sizeof s->kept, "%s/sessions/%s.json", where.folder, o->session);
    if (n >= (int)sizeof s->kept) return cli_fail("%s: too long a name", where.folder);
    path_folders_make(s->kept);
    return CLI_DONE;
}

/* A file that is replaced is another one. */
static session_stamp stamp_of(const chat_session *s) {
    struct stat st;
    if (lstat(s->kept, &st) != 0) return (session_stamp){ 0 };
    return (session_stamp){ st.st_ino, st.st_mtim.tv_sec, st.st_mtim.tv_nsec };
}

static bool is_same(session_stamp a, session_stamp b) {
    return a.inode == b.inode && a.seconds == b.seconds && a.nanoseconds == b.nanoseconds;
}

static bool is_there(const chat_session *s) {
    struct stat st;
    return s->kept[0] && (lstat(s->kept, &st) == 0 || errno != ENOENT);
}

int session_restore(chat_session *s) {
    talk_change change;
    if (!is_there(s)) return CLI_DONE;
    s->stamp = stamp_of(s);
    if (chat_load(s, s->kept, &change) != CLI_DONE) return CLI_FAILED;
    change.n_again = 0; /* all of it is new here */
    chat_tell_change(s, &change);
    int n = talk_n_turns(s->talk);
    screen_dim(&s->screen, "session %s: %d turn%s came back, %s tokens", s->opt->session, n, n == 1 ? "" : "s",
               show_count((uint64_t)talk_length(s->talk)).text);
    return CLI_DONE;
}

void session_keep(chat_session *s) {
    bool replaced;
    if (!s->kept[0] || (talk_n_turns(s->talk) == 0 && !is_there(s))) return;
    if (is_there(s) && !is_same(s->stamp, stamp_of(s)))
        cli_warn("another chat has kept session %s meanwhile: what it said there is replaced", s->opt->session);
    if (chat_save(s, s->kept, &replaced) != CLI_DONE) s->failed = CLI_FAILED;
    s->stamp = stamp_of(s);
}
