/* The lifeline: how a process's death is known on its own host before its memory is given back.
 *
 * The kernel takes a dying process's memory apart before it closes its sockets: 20 ms pass for 300 MB, and the
 * end of a TCP stream is heard only then. The robust mutexes of a dying thread it releases first of all. So a
 * thread of every process holds some, in a file that the others map, for as long as the process lives;
 * and in each of the others a thread waits for one of them.
 *
 * Laws:
 *  - The holder never unlocks and never ends: EOWNERDEAD says that the process is dying, or that exec has put
 *    another program in its place, which is the end of that birth too.
 *  - A file appears under its name when the mutexes in it are held. Nobody else can become their first owner.
 *  - Each mutex is waited for once, by one thread: nobody depends on another to pass the news on. When all are
 *    taken, later comers are left to the end of the TCP stream.
 *  - Nothing else is certain: whatever other answer there is, nobody is declared dead by it.
 *  - No Python, no signal handled in these threads.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "quiet_thread.h"

#define MAGIC UINT64_C(0x3165666c2d74666c) /* "lft-lfe1" */
#define PATH_BYTES 512
#define WATCHERS 256

struct line {
    uint64_t magic;
    uint64_t size; /* of this struct: another C library would lay it out otherwise */
    _Atomic uint32_t taken;
    pthread_mutex_t mutex[WATCHERS];
};

struct watch {
    struct line *line;
    pthread_mutex_t *mutex;
    uint64_t token;
    int tell_fd;
};

static struct {
    struct line *line;
    sem_t held;
    int failed;
} own;

static struct line *map(int fd) {
    void *found = mmap(NULL, sizeof(struct line), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return found == MAP_FAILED ? NULL : found;
}

static void *hold(void *unused) {
    (void)unused;
    pthread_setname_np(pthread_self(), "llft-life");
    for (int i = 0; i < WATCHERS && !own.failed; i++)
        own.failed = pthread_mutex_lock(&own.line->mutex[i]);
    sem_post(&own.held);
    while (!own.failed)
        pause(); /* every signal is blocked: for ever */
    return NULL;
}

static int prepare(struct line *line) {
    pthread_mutexattr_t kind;
    int failed = pthread_mutexattr_init(&kind);
    if (!failed)
        failed = pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
    if (!failed)
        failed = pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    for (int i = 0; i < WATCHERS && !failed; i++)
        failed = pthread_mutex_init(&line->mutex[i], &kind);
    line->magic = MAGIC;
    line->size = sizeof *line;
    return failed;
}

/* Once in a process's life. Returns 0, or an errno. */
int lifeline_hold(const char *path) {
    char unfinished[PATH_BYTES];
    if (own.line)
        return EALREADY;
    if (snprintf(unfinished, sizeof unfinished, "%s.new", path) >= (int)sizeof unfinished)
        return ENAMETOOLONG;
    int fd = open(unfinished, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    /* Its blocks, not only its length: on a full disk a write to a hole is a SIGBUS. */
    int failed = posix_fallocate(fd, 0, sizeof(struct line));
    if (!failed && !(own.line = map(fd)))
        failed = errno;
    close(fd);
    if (!failed)
        failed = prepare(own.line);
    if (!failed)
        failed = sem_init(&own.held, 0, 0) ? errno : start_quiet_thread(hold, NULL);
    if (!failed) {
        while (sem_wait(&own.held) && errno == EINTR)
            ;
        failed = own.failed;
    }
    if (!failed)
        failed = rename(unfinished, path) ? errno : 0;
    if (failed)
        unlink(unfinished);
    return failed;
}

/* In a process that was restored from an image: what is held is held by another one. */
void lifeline_forget(void) { memset(&own, 0, sizeof own); }

static void *await_death(void *argument) {
    struct watch watch = *(struct watch *)argument;
    struct sched_param lowest = {.sched_priority = 1};
    free(argument);
    pthread_setname_np(pthread_self(), "llft-watch");
    pthread_setschedparam(pthread_self(), SCHED_FIFO, &lowest); /* if we may */
    int found = pthread_mutex_lock(watch.mutex);
    if (found == EOWNERDEAD) {
        ssize_t told = write(watch.tell_fd, &watch.token, sizeof watch.token);
        (void)told; /* a full pipe: the end of the TCP stream will tell */
    }
    if (found == EOWNERDEAD || found == 0)
        pthread_mutex_unlock(watch.mutex);
    munmap(watch.line, sizeof *watch.line);
    return NULL;
}

static struct line *open_line(const char *path) {
    struct stat found;
    struct line *line = NULL;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return NULL;
    if (!fstat(fd, &found) && S_ISREG(found.st_mode) && found.st_uid == geteuid() &&
        found.st_size == (off_t)sizeof(struct line))
        line = map(fd);
    else
        errno = EINVAL;
    close(fd);
    if (line && (line->magic != MAGIC || line->size != sizeof *line)) {
        munmap(line, sizeof *line);
        errno = EINVAL;
        return NULL;
    }
    return line;
}

/* From now on the death of whoever holds the line at `path` writes `token` to `tell_fd`. Returns 0, or an
 * errno. */
int lifeline_watch(const char *path, uint64_t token, int tell_fd) {
    struct watch *watch = malloc(sizeof *watch);
    if (!watch)
        return ENOMEM;
    *watch = (struct watch){open_line(path), NULL, token, tell_fd};
    int failed = watch->line ? 0 : errno;
    if (!failed) {
        uint32_t place = watch->line->taken++;
        watch->mutex = &watch->line->mutex[place % WATCHERS];
        failed = place < WATCHERS ? start_quiet_thread(await_death, watch) : EAGAIN;
        if (failed)
            munmap(watch->line, sizeof *watch->line);
    }
    if (failed)
        free(watch);
    return failed;
}
