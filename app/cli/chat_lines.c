/* chat_lines.c - see chat_lines.h. */
#include "chat_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "base/path.h"
#include "chat_signal.h"

/* A history of more lines than anybody walks through, and small enough to be written after each. */
enum { HISTORY_LINES = 1000 };

struct lines {
    char bytes[4096]; /* read ahead, [at .. n) */
    size_t at, n;
    bool ended;

    char *line; /* [room], of a pipe */
    size_t n_line, room;

    EditLine *edit; /* NULL: no terminal */
    History *history;
    const char *prompt;
    bool cleared, was_empty; /* by Ctrl-C */
    struct termios calm; /* how the terminal was found */
    char path[4096];     /* of the history, "" for none */
};

/* ------------------------------------------------------------------------------------------------ bytes */

enum { BYTE_END = -1, BYTE_SIGNAL = -2 };

static int byte_next(lines *l) {
    if (l->at < l->n) return (unsigned char)l->bytes[l->at++];
    if (l->ended) return BYTE_END;
    ssize_t n = chat_read(STDIN_FILENO, l->bytes, sizeof l->bytes);
    if (n < 0 && (chat_leave || chat_resized || errno == EINTR || errno == EAGAIN)) return BYTE_SIGNAL;
    if (n <= 0) {
        l->ended = true;
        return BYTE_END;
    }
    l->at = 1;
    l->n = (size_t)n;
    return (unsigned char)l->bytes[0];
}

/* -------------------------------------------------------------------------------------------- from a pipe */

static bool line_add(lines *l, char byte) {
    if (l->n_line + 2 > l->room) {
        size_t room = l->room ? 2 * l->room : 256;
        char *line = realloc(l->line, room);
        if (!line) return false;
        l->line = line;
        l->room = room;
    }
    l->line[l->n_line++] = byte;
    l->line[l->n_line] = 0;
    return true;
}

/* The last line counts without a line break too. */
static lines_status next_piped(lines *l, const char **text, size_t *n) {
    l->n_line = 0;
    for (;;) {
        int byte = byte_next(l);
        if (byte == BYTE_SIGNAL && chat_leave) return LINES_STOPPED;
        if (byte == BYTE_SIGNAL) continue;
        if (byte == '\n' || (byte == BYTE_END && l->n_line > 0)) break;
        if (byte == BYTE_END) return LINES_END;
        if (!line_add(l, (char)byte)) return LINES_MEMORY;
    }
    if (l->n_line > 0 && l->line[l->n_line - 1] == '\r') l->line[--l->n_line] = 0;
    *text = l->n_line ? l->line : "";
    *n = l->n_line;
    return LINES_ONE;
}

/* --------------------------------------------------------------------------------------- from a terminal */

static char *prompt_of(EditLine *e) {
    lines *l;
    el_get(e, EL_CLIENTDATA, &l);
    return (char *)l->prompt;
}

/* One character for the editor, put together from bytes; bytes that are none are left out. */
static int key_read(EditLine *e, wchar_t *out) {
    lines *l;
    mbstate_t state = { 0 };
    el_get(e, EL_CLIENTDATA, &l);
    for (;;) {
        int byte = byte_next(l);
        if (byte == BYTE_SIGNAL && chat_leave) return 0;
        if (byte == BYTE_SIGNAL) {
            if (chat_resized) el_resize(e);
            chat_resized = 0;
            continue;
        }
        if (byte == BYTE_END) return 0;
        size_t length = mbrtowc(out, &(char){ (char)byte }, 1, &state);
        if (length == (size_t)-1) state = (mbstate_t){ 0 };
        else if (length != (size_t)-2) return 1;
    }
}

/* Ctrl-C. */
static unsigned char key_clear(EditLine *e, int key) {
    lines *l;
    (void)key;
    el_get(e, EL_CLIENTDATA, &l);
    const LineInfoW *line = el_wline(e);
    l->cleared = true;
    l->was_empty = line->lastchar == line->buffer;
    fputs("^C", stderr);
    return CC_NEWLINE;
}

/* Ctrl-Z: the shell gets the terminal as it was. */
static unsigned char key_suspend(EditLine *e, int key) {
    (void)key;
    el_set(e, EL_PREP_TERM, 0);
    fputc('\n', stderr);
    raise(SIGTSTP);
    el_set(e, EL_PREP_TERM, 1);
    return CC_REDISPLAY;
}

/* What the terminal marks as pasted goes into the line as it is, line breaks included. */
static unsigned char key_paste(EditLine *e, int key) {
    static const wchar_t END[] = L"\033[201~";
    enum { N_END = sizeof END / sizeof END[0] - 1 };
    wchar_t *pasted = NULL, w;
    size_t n = 0, room = 0;
    (void)key;
    while (key_read(e, &w) == 1) {
        if (n + 2 > room) {
            room = room ? 2 * room : 256;
            wchar_t *more = realloc(pasted, room * sizeof *more);
            if (!more) break;
            pasted = more;
        }
        pasted[n++] = w == L'\r' ? L'\n' : w;
        if (n >= N_END && wmemcmp(pasted + n - N_END, END, N_END) == 0) {
            n -= N_END;
            break;
        }
    }
    if (pasted) {
        pasted[n] = 0;
        el_winsertstr(e, pasted);
    }
    free(pasted);
    return CC_REFRESH;
}

static lines_status next_typed(lines *l, const char *prompt, const char **text, size_t *n) {
    int length = 0;
    l->prompt = prompt;
    l->cleared = false;
    fputs("\033[?2004h", stderr); /* mark what is pasted */
    const char *line = el_gets(l->edit, &length);
    fputs("\033[?2004l", stderr);
    bool whole = line && length > 0 && !l->cleared && !chat_leave;
    if (!whole) fputc('\n', stderr);
    if (chat_leave) return LINES_STOPPED;
    if (l->cleared) return l->was_empty ? LINES_REFUSED : LINES_CLEARED;
    if (!whole) return LINES_END;
    if (line[length - 1] == '\n') length--;
    l->n_line = 0;
    for (int i = 0; i < length; i++)
        if (!line_add(l, line[i])) return LINES_MEMORY;
    *text = length ? l->line : "";
    *n = (size_t)length;
    return LINES_ONE;
}

lines_status lines_next(lines *l, const char *prompt, const char **text, size_t *n) {
    return l->edit ? next_typed(l, prompt, text, n) : next_piped(l, text, n);
}

/* ----------------------------------------------------------------------------------------------- history */

/* $XDG_STATE_HOME/kvtile/history, else ~/.local/state/kvtile/history. */
static void history_find(lines *l) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (state && state[0] == '/') n = snprintf(l->path, sizeof l->path, "%s/kvtile/history", state);
    else if (home && home[0] == '/') n = snprintf(l->path, sizeof l->path, "%s/.local/state/kvtile/history", home);
    if (n < 0 || n >= (int)sizeof l->path) l->path[0] = 0;
}

/* A pipe or a device in its place would be read for ever. */
static void history_read(lines *l) {
    HistEvent event;
    struct stat st;
    if (l->path[0] && stat(l->path, &st) == 0 && S_ISREG(st.st_mode)) history(l->history, &event, H_LOAD, l->path);
}

/* Written beside it and renamed: a history is whole, and read by its owner alone. A line less in it is no reason to
 * bother anybody. */
static void history_keep(lines *l) {
    HistEvent event;
    char beside[sizeof l->path + 24];
    if (!l->path[0]) return;
    path_folders_make(l->path);
    snprintf(beside, sizeof beside, "%s.%ld", l->path, (long)getpid()); /* of this chat: there may be several */
    int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f) return;
    bool good = fchmod(fd, 0600) == 0 && history(l->history, &event, H_SAVE_FP, f) >= 0;
    good = fclose(f) == 0 && good;
    if (!good || rename(beside, l->path) != 0) unlink(beside);
}

void lines_remember(lines *l, const char *text) {
    HistEvent event;
    if (!l->edit || !text[0]) return;
    history(l->history, &event, H_ENTER, text);
    history_keep(l);
}

/* ------------------------------------------------------------------------------------------ open and close */

static void keys_bind(EditLine *e) {
    el_set(e, EL_EDITOR, "emacs");
    el_set(e, EL_SETTY, "-d", "-isig", NULL); /* Ctrl-C and Ctrl-Z are keys while a line is typed */
    el_set(e, EL_ADDFN, "chat-clear", "forget the line", key_clear);
    el_set(e, EL_BIND, "^C", "chat-clear", NULL);
    el_set(e, EL_ADDFN, "chat-suspend", "stop the program", key_suspend);
    el_set(e, EL_BIND, "^Z", "chat-suspend", NULL);
    el_set(e, EL_ADDFN, "chat-paste", "insert what is pasted", key_paste);
    el_set(e, EL_BIND, "\033[200~", "chat-paste", NULL);
    el_set(e, EL_BIND, "^R", "em-inc-search-prev", NULL);
}

static bool editor_open(lines *l) {
    HistEvent event;
    tcgetattr(STDIN_FILENO, &l->calm);
    l->edit = el_init("kvtile", stdin, stderr, stderr);
    l->history = history_init();
    if (!l->edit || !l->history) return false;
    el_set(l->edit, EL_CLIENTDATA, l);
    el_set(l->edit, EL_PROMPT, prompt_of);
    el_set(l->edit, EL_GETCFN, key_read);
    keys_bind(l->edit);
    history(l->history, &event, H_SETSIZE, HISTORY_LINES);
    history(l->history, &event, H_SETUNIQUE, 1);
    history_find(l);
    history_read(l);
    el_set(l->edit, EL_HIST, history, l->history);
    return true;
}

lines *lines_open(bool terminal) {
    lines *l = calloc(1, sizeof *l);
    if (l && terminal && !editor_open(l)) {
        lines_close(l);
        return NULL;
    }
    return l;
}

void lines_close(lines *l) {
    if (!l) return;
    lines_quiet(l, false);
    if (l->edit) el_end(l->edit);
    if (l->history) history_end(l->history);
    free(l->line);
    free(l);
}

void lines_quiet(lines *l, bool quiet) {
    if (!l->edit) return;
    struct termios t = l->calm;
    if (quiet) t.c_lflag &= ~(tcflag_t)(ECHO | ECHONL);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &t);
}
