/* chat_signal.h - signals in a chat: Ctrl-C stops an answer, SIGTERM and SIGHUP end the program cleanly, and whoever
 * waits for input notices all of them. */
#ifndef CHAT_SIGNAL_H
#define CHAT_SIGNAL_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

extern volatile sig_atomic_t chat_stop_answer; /* the answer is to end here */
extern volatile sig_atomic_t chat_leave;       /* and the program too */
extern volatile sig_atomic_t chat_resized;     /* the terminal has another size */

/* terminal: Ctrl-C is for the answer alone; otherwise it ends the program as well. */
void chat_signals_catch(bool terminal);

/* Read what is there, waiting for it: bytes read, 0 at the end, -1 where a signal came instead. */
ssize_t chat_read(int fd, char *bytes, size_t n);

#endif
