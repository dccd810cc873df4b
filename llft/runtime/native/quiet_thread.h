/* A thread beside the interpreter: detached, with a small stack, and out of the way of the program's signals,
 * which are for its own threads (one that came here would interrupt nobody's call). */
#ifndef LLFT_QUIET_THREAD_H
#define LLFT_QUIET_THREAD_H

#include <pthread.h>
#include <signal.h>

#define QUIET_STACK_BYTES (64 * 1024)

/* Returns 0, or an errno. */
static inline int start_quiet_thread(void *(*run)(void *), void *argument) {
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    int failed = pthread_attr_init(&attributes);
    if (failed)
        return failed;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, QUIET_STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&thread, &attributes, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return failed;
}

#endif
