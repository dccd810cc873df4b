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
 *  - The holder's thread and those that wait for it come before all others, where the process may give them
 *    real-time priority: what is between a death and the news of it is theirs. And who is told comes before all
 *    others, too, until it says that it is done: the dead process's memory is taken apart meanwhile, for some
 *    milliseconds, by a kernel that lets nobody else in.
 *  - For the same reason who was killed steps back (`runtime.priority`), as far as a joiner: the program's threads
 *    have to get past it, too. Who goes of itself says so before, and is left alone: it may be about to join anew.
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
#define FURTHER "10" /* as in priority.py */

struct line {
    uint64_t magic;
    uint64_t size; /* of this struct: another C library would lay it out otherwise */
    uint64_t place[2]; /* the holder's pid namespace, and when its process began: see lifeline.py */
    pid_t pid;
    _Atomic uint32_t taken;
    _Atomic int is_seen_to; /* it goes of itself, or has stepped back */
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

static _Atomic pid_t told_thread; /* who reads what is told; 0: nobody in particular */

/* If we may. A thread that it starts is none of these. */
static void come_first(pid_t thread) {
    struct sched_param lowest = {.sched_priority = 1};
    sched_setscheduler(thread, SCHED_FIFO | SCHED_RESET_ON_FORK, &lowest);
}

/* The same thread: what had to be done soon is done. */
void lifeline_rest(void) {
    struct sched_param none = {.sched_priority = 0};
    sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &none); /* to take that back needs a right */
}

static struct line *map(int fd) {
    void *found = mmap(NULL, sizeof(struct line), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return found == MAP_FAILED ? NULL : found;
}

static void *hold(void *unused) {
    (void)unused;
    pthread_setname_np(pthread_self(), "llft-life");
    come_first(0);
    for (int i = 0; i < WATCHERS && !own.failed; i++)
        own.failed = pthread_mutex_lock(&own.line->mutex[i]);
    sem_post(&own.held);
    while (!own.failed)
        pause(); /* every signal is blocked: for ever */
    return NULL;
}

static int prepare(struct line *line, const uint64_t place[2]) {
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
    memcpy(line->place, place, sizeof line->place);
    line->pid = getpid();
    return failed;
}

/* Once in a process's life. Returns 0, or an errno. */
int lifeline_hold(const char *path, const uint64_t place[2]) {
    char unfinished[PATH_BYTES];
    if (own.line)
        return EALREADY;
    if (sched_getscheduler(0) == (SCHED_FIFO | SCHED_RESET_ON_FORK))
        lifeline_rest(); /* somebody died while it started anew */
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
        failed = prepare(own.line, place);
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

/* The holder goes of itself. What it becomes by exec has the policy of the thread that calls this. */
void lifeline_let_go(void) {
    told_thread = 0;
    lifeline_rest();
    if (own.line)
        own.line->is_seen_to = 1;
}

/* In a process that was restored from an image: what is held is held by another one. */
void lifeline_forget(void) {
    memset(&own, 0, sizeof own);
    told_thread = 0;
}

/* The calling thread is who reads what is told. */
void lifeline_listen(void) { told_thread = gettid(); }

/* Whether /proc speaks of the holder, not of another process with its number. */
static int is_holder(const struct line *line) {
    char name[64], text[1024];
    unsigned long long began = 0;
    struct stat here;
    snprintf(name, sizeof name, "/proc/%d/stat", (int)line->pid);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[length > 0 ? length : 0] = 0;
    char *word = strrchr(text, ')');
    for (int i = 3; word && i <= 22; i++) /* proc(5): the state is word 3, the beginning 22 */
        word = strchr(word + 1, ' ');
    if (word)
        began = strtoull(word, NULL, 10);
    return began && began == line->place[1] && !stat("/proc/self/ns/pid", &here) && here.st_ino == line->place[0];
}

static void step_back(struct line *line) {
    char name[64];
    if (line->is_seen_to++ || !is_holder(line) || getsid(line->pid) != line->pid)
        return;
    snprintf(name, sizeof name, "/proc/%d/autogroup", (int)line->pid);
    int fd = open(name, O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t done = write(fd, FURTHER, strlen(FURTHER));
        (void)done; /* it takes its share then, as everybody does */
        close(fd);
    }
}

static void *await_death(void *argument) {
    struct watch watch = *(struct watch *)argument;
    free(argument);
    pthread_setname_np(pthread_self(), "llft-watch");
    come_first(0);
    int found = pthread_mutex_lock(watch.mutex);
    if (found == EOWNERDEAD) {
        if (told_thread)
            come_first(told_thread);
        ssize_t told = write(watch.tell_fd, &watch.token, sizeof watch.token);
        (void)told; /* a full pipe: the end of the TCP stream will tell */
        step_back(watch.line);
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

/* From now on the death of whoever holds the line at `path` writes `token` to `tell_fd`; `place` is the holder's.
 * Returns 0, or an errno. */
int lifeline_watch(const char *path, uint64_t token, int tell_fd, uint64_t place[2]) {
    struct watch *watch = malloc(sizeof *watch);
    if (!watch)
        return ENOMEM;
    *watch = (struct watch){open_line(path), NULL, token, tell_fd};
    struct line *line = watch->line; /* the thread frees what it is given */
    int failed = line ? 0 : errno;
    if (line) {
        uint32_t number = line->taken++;
        memcpy(place, line->place, sizeof line->place);
        watch->mutex = &line->mutex[number % WATCHERS];
        failed = number < WATCHERS ? start_quiet_thread(await_death, watch) : EAGAIN;
        if (failed)
            munmap(line, sizeof *line);
    }
    if (failed)
        free(watch);
    return failed;
}
