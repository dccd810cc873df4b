/* The pulse: a thread that beats while the interpreter cannot.
 *
 * A replica beats from a Python thread, which needs the interpreter's lock. While somebody holds that lock for
 * long, this thread sends what Python has sealed beforehand: copies of its last Heartbeats, one after
 * the other. It makes nothing itself, so it can say only what Python has said.
 *
 * Laws:
 *  - A datagram leaves once at most: its sequence number is its own.
 *  - After pulse_clear or pulse_route has returned, nothing that was sealed before leaves. The lock is held
 *    while sending; the socket does not block.
 *  - Nothing leaves later than `bound` after the last beat, nor more than SLOTS of them: a process that is stuck
 *    for longer is to be replaced. A process that was stopped for so long says nothing when it goes on.
 *  - No allocation, no Python, no signal handled in this thread.
 *
 * Python calls with its lock held (ctypes.PyDLL) and waits here for a few sends at most. The lock inherits
 * priority, so that a caller that is not scheduled does not keep this thread waiting.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "quiet_thread.h"

#define SLOTS 64
#define DATAGRAM_BYTES 512
#define DESTINATIONS 64
#define ADDRESS_BYTES 6 /* IPv4 address and port, both in network order */
#define SECOND_NS INT64_C(1000000000)

/* When Python has beaten last. It writes here without a call. */
_Atomic int64_t pulse_beat_ns;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int fd;
    int64_t patience_ns; /* this silence begins a pulse */
    int64_t spacing_ns;  /* between two datagrams of it */
    int64_t bound_ns;    /* from the last beat to the last datagram */
    int64_t spoke_ns;    /* when the last datagram left */
    uint32_t first, count;
    uint32_t length[SLOTS];
    unsigned char datagram[SLOTS][DATAGRAM_BYTES];
    struct sockaddr_in destination[DESTINATIONS];
    uint32_t destination_count;
    uint64_t sent, lost, silences;
    int is_started, is_realtime;
} pulse;

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * SECOND_NS + now.tv_nsec;
}

static void send_first(void) {
    unsigned char *datagram = pulse.datagram[pulse.first];
    for (uint32_t i = 0; i < pulse.destination_count; i++) {
        ssize_t sent = sendto(pulse.fd, datagram, pulse.length[pulse.first], MSG_DONTWAIT | MSG_NOSIGNAL,
                              (struct sockaddr *)&pulse.destination[i], sizeof pulse.destination[i]);
        if (sent < 0)
            pulse.lost++;
        else
            pulse.sent++;
    }
    pulse.first = (pulse.first + 1) % SLOTS;
    pulse.count--;
}

/* What is due now. Lock held. */
static void beat_instead(int64_t beat_ns, int64_t now) {
    if (now - beat_ns > pulse.bound_ns) {
        pulse.count = 0;
        return;
    }
    if (pulse.spoke_ns <= beat_ns)
        pulse.silences++;
    send_first();
    pulse.spoke_ns = now;
}

/* When the next datagram leaves, unless there is a beat before. */
static int64_t due_ns(int64_t beat_ns) {
    int64_t first = beat_ns + pulse.patience_ns, next = pulse.spoke_ns + pulse.spacing_ns;
    return first > next ? first : next;
}

static void *run(void *unused) {
    (void)unused;
    struct sched_param lowest = {.sched_priority = 1};
    int refused = pthread_setschedparam(pthread_self(), SCHED_FIFO, &lowest);
    pthread_setname_np(pthread_self(), "llft-pulse");
    pthread_mutex_lock(&pulse.lock);
    pulse.is_realtime = !refused;
    for (;;) {
        if (pulse.count == 0) {
            pthread_cond_wait(&pulse.changed, &pulse.lock);
            continue;
        }
        int64_t beat_ns = pulse_beat_ns, now = now_ns(), due = due_ns(beat_ns);
        if (now >= due) {
            beat_instead(beat_ns, now);
            continue;
        }
        /* A beat meanwhile need not wake it: it looks again when this one's patience ends. */
        struct timespec until = {due / SECOND_NS, due % SECOND_NS};
        pthread_cond_timedwait(&pulse.changed, &pulse.lock, &until);
    }
    return NULL;
}

static int prepare_lock(void) {
    pthread_mutexattr_t inherits;
    pthread_condattr_t monotonic;
    int failed = pthread_mutexattr_init(&inherits);
    if (!failed)
        failed = pthread_mutexattr_setprotocol(&inherits, PTHREAD_PRIO_INHERIT);
    if (!failed)
        failed = pthread_mutex_init(&pulse.lock, &inherits);
    if (!failed)
        failed = pthread_condattr_init(&monotonic);
    if (!failed)
        failed = pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    if (!failed)
        failed = pthread_cond_init(&pulse.changed, &monotonic);
    return failed;
}

/* Once in a process's life, before anything else. Returns 0, or an errno. */
int pulse_start(int fd, int64_t patience_ns, int64_t spacing_ns, int64_t bound_ns) {
    if (pulse.is_started)
        return EALREADY;
    int failed = prepare_lock();
    if (failed)
        return failed;
    pulse.is_started = 1;
    pulse.fd = fd;
    pulse.patience_ns = patience_ns;
    pulse.spacing_ns = spacing_ns;
    pulse.bound_ns = bound_ns;
    return start_quiet_thread(run, NULL);
}

/* In a process that was restored from an image: the thread that the rest of this file speaks of is not there. */
void pulse_forget(void) { memset(&pulse, 0, sizeof pulse); }

/* Python has left a role or a view: what it said there is not said any more. */
void pulse_clear(void) {
    pthread_mutex_lock(&pulse.lock);
    pulse.count = 0;
    pthread_mutex_unlock(&pulse.lock);
}

/* Where everything sealed from now on goes. Returns 0, or EINVAL if there are too many destinations. */
int pulse_route(const unsigned char *addresses, uint32_t count) {
    pthread_mutex_lock(&pulse.lock);
    pulse.count = 0;
    pulse.destination_count = count <= DESTINATIONS ? count : 0;
    for (uint32_t i = 0; i < pulse.destination_count; i++) {
        struct sockaddr_in *to = &pulse.destination[i];
        memset(to, 0, sizeof *to);
        to->sin_family = AF_INET;
        memcpy(&to->sin_addr, addresses + i * ADDRESS_BYTES, 4);
        memcpy(&to->sin_port, addresses + i * ADDRESS_BYTES + 4, 2);
    }
    pthread_mutex_unlock(&pulse.lock);
    return count <= DESTINATIONS ? 0 : EINVAL;
}

/* `count` more datagrams of `length` bytes each. Beyond `most` the oldest go. */
int pulse_supply(const unsigned char *sealed, uint32_t length, uint32_t count, uint32_t most) {
    if (length == 0 || length > DATAGRAM_BYTES || most > SLOTS || count > most)
        return EINVAL;
    pthread_mutex_lock(&pulse.lock);
    int was_empty = pulse.count == 0;
    while (pulse.count + count > most) {
        pulse.first = (pulse.first + 1) % SLOTS;
        pulse.count--;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = (pulse.first + pulse.count) % SLOTS;
        memcpy(pulse.datagram[slot], sealed + i * length, length);
        pulse.length[slot] = length;
        pulse.count++;
    }
    pthread_mutex_unlock(&pulse.lock);
    if (was_empty)
        pthread_cond_signal(&pulse.changed);
    return 0;
}

/* sent, lost at sending, silences that were bridged, whether the thread has a real-time priority, held now */
void pulse_statistics(uint64_t *found) {
    pthread_mutex_lock(&pulse.lock);
    found[0] = pulse.sent;
    found[1] = pulse.lost;
    found[2] = pulse.silences;
    found[3] = (uint64_t)pulse.is_realtime;
    found[4] = pulse.count;
    pthread_mutex_unlock(&pulse.lock);
}
