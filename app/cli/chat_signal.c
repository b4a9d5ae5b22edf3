/* chat_signal.c - see chat_signal.h. */
#include "chat_signal.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

volatile sig_atomic_t chat_stop_answer, chat_leave, chat_resized;

static bool on_terminal;

static void on_interrupt(int number) {
    (void)number;
    chat_stop_answer = 1;
    if (!on_terminal) chat_leave = 1;
}

static void on_end(int number) {
    (void)number;
    chat_stop_answer = 1;
    chat_leave = 1;
}

static void on_resize(int number) {
    (void)number;
    chat_resized = 1;
}

void chat_signals_catch(bool terminal) {
    /* Who asks twice wants it at once: then the signal does what it does by itself. */
    struct sigaction once = { .sa_handler = on_end, .sa_flags = (int)SA_RESETHAND };
    struct sigaction interrupt = { .sa_handler = on_interrupt, .sa_flags = terminal ? 0 : (int)SA_RESETHAND };
    struct sigaction resize = { .sa_handler = on_resize };
    on_terminal = terminal;
    sigaction(SIGINT, &interrupt, NULL);
    sigaction(SIGTERM, &once, NULL);
    sigaction(SIGHUP, &once, NULL);
    if (terminal) sigaction(SIGWINCH, &resize, NULL);
}

/* Signals are let in only while poll waits, so none is lost between looking at the flags and waiting. */
ssize_t chat_read(int fd, char *bytes, size_t n) {
    sigset_t held, before;
    struct pollfd one = { .fd = fd, .events = POLLIN };
    sigemptyset(&held);
    sigaddset(&held, SIGINT);
    sigaddset(&held, SIGTERM);
    sigaddset(&held, SIGHUP);
    sigaddset(&held, SIGWINCH);
    pthread_sigmask(SIG_BLOCK, &held, &before);
    int ready = chat_leave || chat_resized ? -1 : ppoll(&one, 1, NULL, &before);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ready < 0 ? -1 : read(fd, bytes, n);
}
