/* The spool: bytes on their way to a file, which the interpreter must never wait for.
 *
 * A write to a file may take half a second when the disk is busy with others, and whoever makes it under the
 * core's lock is silent for as long. So the journal's bytes go into a ring, and a thread of ours writes
 * them. Laws:
 *
 * 1. spool_write never waits for the disk. It takes all that it is given, or nothing.
 * 2. Bytes reach the file in their order; a short write is continued where it ended.
 * 3. What a file system refuses stays in the ring and is tried again; then the ring fills, and the
 *    interpreter hears of it.
 * 4. Another file begins only when all bytes of the last one are out.
 *
 * What is in the ring when the process is killed is lost: as a rule of five milliseconds at most, of twenty
 * while much is written. Who writes less often than that is written at once.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "quiet_thread.h"

#define RING_BYTES (1u << 20)
#define GATHERING_NS (5 * 1000 * 1000)  /* more may come; to wake up costs more than to write */
#define BUSY_NS (20 * 1000 * 1000)      /* the same when so much came in that time: */
#define BUSY_BYTES 512
#define ALONE_NS (500 * 1000) /* of what nobody else writes down */
#define PRESSING_BYTES (RING_BYTES / 4) /* with so much in the ring nobody waits for more */
#define REFUSED_NS (50 * 1000 * 1000)

static struct {
    pthread_mutex_t lock;
    pthread_cond_t news; /* there is something to write */
    pthread_cond_t hurry; /* somebody waits for it to be written, or for room */
    pthread_cond_t settled;
    uint64_t taken; /* so many bytes came in, so many went out */
    uint64_t written;
    int fd;
    int refusal; /* the errno of the last write, 0 if it was not refused */
    int waiting; /* the thread waits for news */
    int started;
    uint32_t epoch; /* how often it was emptied unwritten */
    int alone;      /* nobody else writes down what comes */
    char ring[RING_BYTES];
} spool = {.lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER, .fd = -1};

static void pause_ns(long ns) {
    struct timespec pause = {.tv_sec = 0, .tv_nsec = ns};
    nanosleep(&pause, NULL);
}

static struct timespec in_ns(int64_t ns) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    ns += until.tv_nsec;
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    return until;
}

/* Under the lock, which is left meanwhile: more may come. */
static void gather(int64_t ns) {
    struct timespec until = in_ns(ns);
    if (spool.taken - spool.written < PRESSING_BYTES)
        pthread_cond_timedwait(&spool.hurry, &spool.lock, &until);
}

/* Under the lock, which is left while the disk works. Returns how much there was to write. */
static uint64_t write_some(void) {
    uint32_t start = spool.written % RING_BYTES;
    uint64_t size = spool.taken - spool.written;
    if (size > RING_BYTES - start)
        size = RING_BYTES - start;
    int fd = spool.fd;
    uint32_t epoch = spool.epoch;
    pthread_mutex_unlock(&spool.lock);
    ssize_t done = write(fd, spool.ring + start, size);
    int refusal = done < 0 ? errno : 0;
    if (refusal && refusal != EINTR)
        pause_ns(REFUSED_NS);
    pthread_mutex_lock(&spool.lock);
    if (epoch != spool.epoch)
        return 0;
    spool.refusal = refusal == EINTR ? 0 : refusal;
    if (done > 0)
        spool.written += (uint64_t)done;
    if (spool.refusal || spool.written == spool.taken)
        pthread_cond_broadcast(&spool.settled);
    return size;
}

static void *run(void *unused) {
    (void)unused;
    pthread_setname_np(pthread_self(), "llft-spool");
    pthread_mutex_lock(&spool.lock);
    for (;;) {
        while (spool.taken == spool.written) {
            spool.waiting = 1;
            pthread_cond_wait(&spool.news, &spool.lock);
        }
        spool.waiting = 0;
        uint64_t size = write_some();
        gather(spool.alone ? ALONE_NS : size < BUSY_BYTES ? GATHERING_NS : BUSY_NS);
    }
    return NULL;
}

/* Once in a process's life. `alone`: no other process has what comes, and a kill takes what was gathered. Returns
 * 0, or an errno. */
int spool_start(int alone) {
    spool.alone = alone;
    if (spool.started)
        return 0;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&spool.settled, &monotonic);
    pthread_cond_init(&spool.hurry, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int failed = start_quiet_thread(run, NULL);
    spool.started = !failed;
    return failed;
}

/* In a process that was restored from an image: the thread is not there, and the bytes are another one's. */
void spool_forget(void) {
    pthread_mutex_init(&spool.lock, NULL);
    pthread_cond_init(&spool.news, NULL);
    spool.taken = spool.written = 0;
    spool.fd = -1;
    spool.refusal = spool.waiting = spool.started = 0;
    spool.epoch++;
}

/* Returns 0 if all was taken; else nothing was, and why: what the file system said last, or EAGAIN. */
int spool_write(int fd, const char *data, uint32_t size) {
    pthread_mutex_lock(&spool.lock);
    uint64_t waiting = spool.taken - spool.written;
    if (size > RING_BYTES - waiting || (waiting && fd != spool.fd)) {
        int reason = spool.refusal ? spool.refusal : EAGAIN;
        pthread_cond_signal(&spool.hurry);
        pthread_mutex_unlock(&spool.lock);
        return reason;
    }
    uint32_t start = spool.taken % RING_BYTES, first = RING_BYTES - start;
    if (first > size)
        first = size;
    memcpy(spool.ring + start, data, first);
    memcpy(spool.ring, data + first, size - first);
    spool.fd = fd;
    spool.taken += size;
    if (spool.waiting)
        pthread_cond_signal(&spool.news);
    else if (waiting + size >= PRESSING_BYTES)
        pthread_cond_signal(&spool.hurry);
    pthread_mutex_unlock(&spool.lock);
    return 0;
}

/* Forget what is not in the file: its descriptor is about to be closed. */
void spool_abandon(void) {
    pthread_mutex_lock(&spool.lock);
    spool.written = spool.taken;
    spool.refusal = 0;
    spool.epoch++;
    pthread_mutex_unlock(&spool.lock);
}

/* Wait, within a bound, until all is in the file. Returns 0, what the file system said, or ETIMEDOUT. */
int spool_settle(int64_t bound_ns) {
    struct timespec until = in_ns(bound_ns);
    int failed = 0;
    pthread_mutex_lock(&spool.lock);
    pthread_cond_signal(&spool.hurry);
    while (spool.taken != spool.written && !failed && !spool.refusal)
        failed = pthread_cond_timedwait(&spool.settled, &spool.lock, &until);
    if (spool.taken == spool.written)
        failed = 0;
    else if (spool.refusal)
        failed = spool.refusal;
    pthread_mutex_unlock(&spool.lock);
    return failed;
}
