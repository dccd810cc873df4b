/* How a call of a dialogue waits for the network.
 *
 * Laws:
 *
 * 1. The interpreter's lock is held but while a thread waits; whoever comes back from that looks first whether
 *    the dialogue is still the one that it left (`generation`). If not, the core has its call.
 * 2. Datagrams that are not a connection's next message are kept in the order in which they came, and end it.
 */

#include "dialogue.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <time.h>

enum {
    EVENTS = 8,
    DRAINED_AT_MOST = 256,
    IN_VAIN_MAX = 4,
    SLEEPS_BETWEEN = 64,
    NS_IN_MS = 1000000,
};

tally_t tally;

int64_t monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Looking before one sleeps pays only where what is waited for comes soon: whoever looked in vain a few times
 * sleeps at once, and tries again only now and then (`runtime.spinning`). */
typedef struct {
    int in_vain, sleeps;
} looks_t;

static bool is_promising(looks_t *looks) {
    if (looks->in_vain < IN_VAIN_MAX)
        return true;
    if (++looks->sleeps < SLEEPS_BETWEEN)
        return false;
    looks->sleeps = 0;
    return true;
}

static int has_looked(looks_t *looks, int found) {
    looks->in_vain = found ? 0 : looks->in_vain + 1;
    return found;
}

static int look_for(int64_t until_ns, struct epoll_event *events) {
    int found = 0;
    while (!found && monotonic_ns() < until_ns)
        found = epoll_wait(dialogue.epoll_fd, events, EVENTS, 0);
    return found;
}

/* Who is to answer may need this very processor: it is let go first. */
static int let_go(struct epoll_event *events) {
    sched_yield();
    return epoll_wait(dialogue.epoll_fd, events, EVENTS, 0);
}

/* Without the interpreter's lock, by the one thread that waits: descriptors that have something, -1 with errno. */
static int poll_network(struct epoll_event *events, int64_t until_ns) {
    static looks_t spinning, yielding;
    int64_t now_ns = monotonic_ns();
    int found = 0;
    if (dialogue.live && dialogue.spin_ns && is_promising(&spinning)) {
        int64_t spin_until_ns = now_ns + dialogue.spin_ns;
        found = has_looked(&spinning, look_for(spin_until_ns < until_ns ? spin_until_ns : until_ns, events));
    } else if (dialogue.live && !dialogue.spin_ns && is_promising(&yielding)) {
        found = has_looked(&yielding, let_go(events));
    }
    if (found)
        return found;
    int64_t left_ms = (until_ns - now_ns + NS_IN_MS - 1) / NS_IN_MS;
    return epoll_wait(dialogue.epoll_fd, events, EVENTS, left_ms < 0 ? 0 : left_ms > 1000 ? 1000 : (int)left_ms);
}

/* At a backup: more is let come before it is looked at. */
static int rest(void) {
    struct pollfd urgent = {.fd = dialogue.urgent_fd, .events = POLLIN};
    struct timespec time = {.tv_nsec = (long)dialogue.lazy_ns};
    return ppoll(&urgent, 1, &time, NULL);
}

static outcome_t drain(int64_t now_ns) {
    datagram_taken taken[DATAGRAMS_AT_ONCE];
    int drained = 0;
    for (int left = DRAINED_AT_MOST, count; left > 0 && !drained; left -= count ? count : 1) {
        count = datagram->take(dialogue.datagrams, dialogue.hearing_fd, taken, &drained);
        if (count < 0)
            Py_FatalError("the network cannot be read");
        for (int at = 0; at < count; at++) {
            if (!PyList_GET_SIZE(dialogue.foreign) && take_datagram(&taken[at], now_ns))
                continue;
            PyObject *one = datagram->as_tuple(&taken[at]);
            if (!one || PyList_Append(dialogue.foreign, one) < 0)
                Py_FatalError("no memory for a datagram that has been taken");
            Py_DECREF(one);
        }
    }
    if (!PyList_GET_SIZE(dialogue.foreign))
        return ARRIVED;
    tally.foreign++;
    return LEAVE;
}

/* What is to be done at a primary by then, whether somebody waits or not. */
static int64_t due_ns(void) {
    int64_t until_ns = dialogue.deadline_ns;
    for (int at = 0; dialogue.live && at < dialogue.connection_count; at++) {
        const connection_t *c = &dialogue.connections[at];
        if (c->retransmit_ns < until_ns)
            until_ns = c->retransmit_ns;
        if (c->ack_due_ns < until_ns)
            until_ns = c->ack_due_ns;
    }
    return until_ns;
}

/* More is likely to come soon. */
static bool is_busy(int64_t now_ns) {
    return now_ns - dialogue.heard_ns < (dialogue.lazy_ns > NS_IN_MS ? dialogue.lazy_ns : NS_IN_MS);
}

void ask_nothing(void) {
    dialogue.asked.kind = NO_CALL;
    Py_CLEAR(dialogue.asked.payload);
    Py_CLEAR(dialogue.asked.fds);
    Py_CLEAR(dialogue.asked.writing);
}

/* Whoever takes the dialogue back needs what the call was about, even if its thread has left by then. */
static void ask(const asked_t *asked) {
    dialogue.asked = *asked;
    Py_XINCREF(asked->payload);
    Py_XINCREF(asked->fds);
    Py_XINCREF(asked->writing);
}

/* ARRIVED also if the call's own time is over: its caller looks at the clock. */
static outcome_t wait_once(int64_t now_ns, const asked_t *asked) {
    struct epoll_event events[EVENTS];
    int64_t leave_ns = due_ns(), until_ns = leave_ns;
    if (dialogue.live && asked->until_ns < leave_ns) /* a backup waits for the log, whatever the time */
        until_ns = asked->until_ns;
    uint64_t generation = dialogue.generation;
    int count, urgent = 0;
    if (now_ns >= leave_ns) {
        tally.deadlines++;
        return LEAVE;
    }
    ask(asked);
    dialogue.waiting = true;
    bool is_lazy = !dialogue.live && dialogue.lazy_ns > 0 && is_busy(now_ns);
    Py_BEGIN_ALLOW_THREADS;
    count = poll_network(events, until_ns);
    if (is_lazy && count == 1 && events[0].data.fd == dialogue.hearing_fd)
        urgent = rest();
    Py_END_ALLOW_THREADS;
    if (dialogue.generation != generation) {
        tally.handed++;
        return HANDED;
    }
    dialogue.waiting = false;
    ask_nothing();
    if (!count && monotonic_ns() < leave_ns)
        return ARRIVED;
    if (count != 1 || urgent || events[0].data.fd != dialogue.hearing_fd) {
        *(count ? &tally.others : &tally.deadlines) += 1;
        return LEAVE; /* a deadline, a signal, or something else has come */
    }
    return drain(monotonic_ns());
}

outcome_t wait_for_network(int64_t now_ns, const asked_t *asked) {
    outcome_t outcome = wait_once(now_ns, asked);
    if (outcome == LEAVE)
        dialogue.left = true;
    return outcome;
}

bool is_calm(int64_t now_ns) {
    struct epoll_event events[EVENTS];
    int count = now_ns < due_ns() ? epoll_wait(dialogue.epoll_fd, events, EVENTS, 0) : -1;
    bool is_calm = !count || (count == 1 && events[0].data.fd == dialogue.hearing_fd && drain(now_ns) == ARRIVED);
    tally.meanwhile += is_calm && count;
    if (!is_calm)
        dialogue.left = true;
    return is_calm;
}
