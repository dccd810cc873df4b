/* How a call of a dialogue waits for the network.
 *
 * Where messages come one soon after the other (briskly) a primary waits in the socket that hears them, and for
 * nothing else: that is a system call less for each. What else may come is looked at every OTHERS_NS, and when
 * nothing came for a moment. What can wait meanwhile waits for the deadline that cannot: its own beat, and its
 * backups' Heartbeats (`beating.c`), for each end of a dialogue costs as much as dozens of messages. While messages
 * come that is kept to the moment; the first silence may end it as much later as the socket is patient.
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
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

enum {
    EVENTS = 8,
    DRAINED_AT_MOST = 256, /* and what has come with the last of them, */
    CALLS_AT_MOST = 32,    /* by so many calls of the system */
    NS_IN_MS = 1000000,
    BRISK_NS = 4 * NS_IN_MS,
    OTHERS_NS = 10 * NS_IN_MS,
    SLEPT_NS = 3000, /* who did not wait for so long found something at once */
    PATIENCE_NS = 8 * NS_IN_MS, /* of the socket, and a bit */
    SEALED_AT = 512, /* calls */
};

tally_t tally;

int64_t monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* What a thread that waits in the socket has taken from it. There is one such thread at most. */
static datagrams_heard heard;

/* 1: something is heard, or wrong. 0: nothing came within the socket's patience, which is a few milliseconds
 * (`transport.compiled_udp`), or it has none. -1: a signal. */
static int hear_one(PyObject *datagrams, int flags) {
    if (datagram->hear(datagrams, dialogue.hearing_fd, flags, &heard))
        return 1;
    return errno == EINTR ? -1 : errno != EAGAIN;
}

static looks_t looks;
static bool looked; /* the last wait began with it */

/* What is there already, one's own beat for example, says nothing of how long others take. */
static int look_for(PyObject *datagrams, int64_t began_ns, int64_t until_ns) {
    looked = is_promising(&looks);
    int found = looked ? hear_one(datagrams, MSG_DONTWAIT) : 0;
    if (!looked || found)
        return found;
    int64_t now_ns = monotonic_ns();
    for (; !found && now_ns < until_ns; now_ns = monotonic_ns())
        found = hear_one(datagrams, MSG_DONTWAIT);
    return has_looked(&looks, found, now_ns - began_ns);
}

bool is_brisk(void) { return dialogue.brisk; }

/* A primary. A fellow's answers come by another socket: they wake it if the next question waits for one. */
static bool waits_in_socket(void) { return dialogue.live && dialogue.brisk && !needs_answer(); }

static bool are_others_due(int64_t now_ns) { return now_ns - dialogue.looked_ns >= OTHERS_NS; }

static int look_at_all(struct epoll_event *events, int64_t now_ns, int timeout_ms) {
    dialogue.looked_ns = now_ns;
    return look_at_descriptors(events, EVENTS, timeout_ms);
}

/* An answer that wakes nobody is looked for at the latest when nothing came for a moment. */
static int hear_briskly(PyObject *datagrams, struct epoll_event *events, int64_t now_ns) {
    int found = are_others_due(now_ns) ? look_at_all(events, now_ns, 0) : 0;
    if (!found)
        found = hear_one(datagrams, 0);
    return found ? found : look_at_all(events, now_ns, 0);
}

/* Without the interpreter's lock, by the one thread that waits: descriptors that have something, -1 with errno. The
 * call's own time is kept to the millisecond. */
static int poll_network(PyObject *datagrams, struct epoll_event *events, int64_t now_ns, int64_t until_ns,
                        int64_t call_until_ns) {
    int64_t spin_until_ns = now_ns + dialogue.spin_ns;
    int found = 0;
    if (dialogue.live && dialogue.spin_ns) {
        found = are_others_due(now_ns) ? look_at_all(events, now_ns, 0) : 0;
        if (!found)
            found = look_for(datagrams, now_ns, spin_until_ns < until_ns ? spin_until_ns : until_ns);
    }
    if (!found && waits_in_socket() && call_until_ns - now_ns > PATIENCE_NS)
        return hear_briskly(datagrams, events, now_ns);
    if (found)
        return found;
    now_ns = monotonic_ns();
    int64_t left_ms = (until_ns - now_ns + NS_IN_MS - 1) / NS_IN_MS;
    return look_at_all(events, now_ns, left_ms < 0 ? 0 : left_ms > 1000 ? 1000 : (int)left_ms);
}

/* At a backup: more is let come before it is looked at. 1: something urgent has; -1: a signal. */
static int rest(int64_t most_ns) {
    struct pollfd urgent = {.fd = dialogue.urgent_fd, .events = POLLIN};
    struct timespec time = {.tv_nsec = (long)(dialogue.lazy_ns < most_ns ? dialogue.lazy_ns : most_ns)};
    return ppoll(&urgent, 1, &time, NULL);
}

/* Who rests anyway does so before it looks: to be told that something has come, and that it may rest, would cost it
 * and whoever sends that as much as all the rest. */
static int poll_lazily(PyObject *datagrams, struct epoll_event *events, int64_t now_ns, int64_t until_ns) {
    int urgent = rest(until_ns - now_ns);
    if (urgent < 0)
        return urgent;
    return urgent ? look_at_all(events, now_ns, 0) : poll_network(datagrams, events, now_ns, until_ns, NEVER);
}

static void append(PyObject *list, const datagram_taken *taken) {
    PyObject *one = datagram->as_tuple(taken);
    if (!one || PyList_Append(list, one) < 0)
        Py_FatalError("no memory for a datagram that has been taken");
    Py_DECREF(one);
}

static void look_at(const datagram_taken *taken, int64_t now_ns) {
    bool is_behind = PyList_GET_SIZE(dialogue.foreign) > 0;
    if (!is_behind && (take_datagram(taken, now_ns) || take_from_fellow(taken, now_ns) || take_beat_of_member(taken, now_ns)))
        return;
    int64_t waits_ns = is_behind ? 0 : put_off_ns(taken, now_ns);
    append(waits_ns ? dialogue.postponed : dialogue.foreign, taken);
    if (waits_ns && now_ns + waits_ns < dialogue.postponed_until_ns)
        dialogue.postponed_until_ns = now_ns + waits_ns;
}

/* Behind all that was looked at: a backup that holds what it was asked for says so. */
static outcome_t verdict(void) {
    if (answer_if_held() && !PyList_GET_SIZE(dialogue.foreign))
        return ARRIVED;
    tally.foreign++;
    return LEAVE;
}

static int drain_one(int fd, int64_t now_ns) {
    const datagram_taken *taken;
    int drained = 0, found = 0;
    for (int calls = 0; found < DRAINED_AT_MOST && calls < CALLS_AT_MOST && !drained; calls++) {
        int count = datagram->take(dialogue.datagrams, fd, &taken, &drained);
        if (count < 0)
            Py_FatalError("the network cannot be read");
        for (int at = 0; at < count; at++)
            look_at(&taken[at], now_ns);
        found += count;
    }
    return found;
}

/* What is for the group comes first: what is for this process alone may be about it. */
static int drain(bool own, int64_t now_ns) {
    int found = drain_one(dialogue.hearing_fd, now_ns);
    return own ? found + drain_one(dialogue.own_fd, now_ns) : found;
}

/* Nothing but datagrams has come. */
static bool are_datagrams(const struct epoll_event *events, int count) {
    for (int at = 0; at < count; at++)
        if (events[at].data.fd != dialogue.hearing_fd && events[at].data.fd != dialogue.own_fd)
            return false;
    return count > 0;
}

static bool has_own(const struct epoll_event *events, int count) {
    for (int at = 0; at < count; at++)
        if (events[at].data.fd != dialogue.hearing_fd)
            return true;
    return false;
}

/* Only a part of a message has come. */
static bool is_in_part(void) {
    for (int at = 0; at < dialogue.connection_count; at++)
        if (dialogue.connections[at].partial.payload)
            return true;
    return false;
}

/* What was waited for, and what else is there. Of one that a primary has slept for, and that talks with it alone,
 * there is not more, as a rule, unless it has only a part of it; to be told so costs as much as half a message, so it
 * is the next call's. */
static outcome_t take_all(const struct epoll_event *events, int count, int64_t now_ns, int64_t waited_ns) {
    const datagram_taken *taken;
    bool has_heard = heard.size >= 0;
    int count_heard = datagram->open(dialogue.datagrams, &heard, &taken);
    for (int at = 0; at < count_heard; at++)
        look_at(&taken[at], now_ns);
    bool has_answer = answer_due_ns() != NEVER;
    if (!has_heard || waited_ns < SLEPT_NS || dialogue.connection_count > 1 || is_in_part())
        drain(has_own(events, count) || has_answer, now_ns);
    else if (has_answer)
        drain_one(dialogue.own_fd, now_ns);
    return verdict();
}

/* -- left behind ------------------------------------------------------------------------------------- */

static PyObject *left_behind; /* a list: what was heard by a thread that had its call taken away meanwhile */

static void leave_behind(PyObject *datagrams) {
    const datagram_taken *taken;
    int count = datagram->open(datagrams, &heard, &taken);
    if (count && !left_behind && !(left_behind = PyList_New(0)))
        Py_FatalError("no memory for a datagram that has been taken");
    for (int at = 0; at < count; at++)
        append(left_behind, &taken[at]);
}

/* take_left_behind() */
PyObject *take_left_behind(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    PyObject *list = left_behind;
    left_behind = NULL;
    return list ? list : PyList_New(0);
}

int64_t due_ns(void) {
    int64_t until_ns = is_brisk() ? dialogue.late_ns : dialogue.deadline_ns, answer_ns = answer_due_ns();
    if (answer_ns < until_ns)
        until_ns = answer_ns;
    if (dialogue.suspect_ns < until_ns)
        until_ns = dialogue.suspect_ns;
    if (dialogue.postponed_until_ns < until_ns)
        until_ns = dialogue.postponed_until_ns;
    if (dialogue.live && parked_until_ns() < until_ns)
        until_ns = parked_until_ns();
    for (int at = 0; dialogue.live && at < dialogue.connection_count; at++) {
        const connection_t *c = &dialogue.connections[at];
        if (c->retransmit_ns < until_ns)
            until_ns = c->retransmit_ns;
        if (c->ack_due_ns < until_ns)
            until_ns = c->ack_due_ns;
        if (c->keep_alive_ns < until_ns)
            until_ns = c->keep_alive_ns;
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

/* Without the interpreter's lock meanwhile. HANDED: the dialogue was taken back. */
static outcome_t sleep_until(int64_t now_ns, int64_t until_ns, const asked_t *asked, struct epoll_event *events, int *count) {
    uint64_t generation = dialogue.generation;
    PyObject *datagrams = Py_NewRef(dialogue.datagrams);
    bool is_lazy = !dialogue.live && dialogue.lazy_ns > 0 && is_busy(now_ns);
    dialogue.waiting = true;
    heard.size = -1;
    listen_apart();
    Py_BEGIN_ALLOW_THREADS;
    *count = is_lazy ? poll_lazily(datagrams, events, now_ns, until_ns)
                     : poll_network(datagrams, events, now_ns, until_ns, asked->until_ns);
    Py_END_ALLOW_THREADS;
    bool is_same = dialogue.generation == generation;
    if (!is_same)
        leave_behind(datagrams);
    Py_DECREF(datagrams);
    return is_same ? ARRIVED : HANDED;
}

/* What was called is put into frames of the journal while it is in the processor's caches. */
static void keep_house(void) {
    if (dialogue.called_count >= SEALED_AT)
        seal_calls();
}

/* ARRIVED also if the call's own time is over: its caller looks at the clock. */
static outcome_t wait_once(int64_t *now_ns, const asked_t *asked) {
    struct epoll_event events[EVENTS] = {{.data.fd = dialogue.hearing_fd}};
    tell_acks(*now_ns);
    int64_t began_ns = *now_ns, leave_ns = due_ns(), until_ns = leave_ns;
    if (dialogue.live && asked->until_ns < leave_ns) /* a backup waits for the log, whatever the time */
        until_ns = asked->until_ns;
    if (something_waits() && began_ns + BRISK_NS < until_ns)
        until_ns = began_ns + BRISK_NS; /* the first silence ends what waits */
    int count;
    keep_house();
    if (began_ns >= leave_ns || !keep_beating(began_ns)) {
        tally.deadlines++;
        return LEAVE;
    }
    if (beat_due_ns() < until_ns)
        until_ns = beat_due_ns();
    if (!is_brisk() && something_waits()) {
        tally.foreign++;
        return LEAVE;
    }
    ask(asked);
    if (sleep_until(began_ns, until_ns, asked, events, &count) == HANDED) {
        tally.handed++;
        return HANDED;
    }
    dialogue.waiting = false;
    ask_nothing();
    *now_ns = monotonic_ns();
    if (!looked && *now_ns - began_ns >= SLEPT_NS)
        has_slept(&looks, *now_ns - began_ns);
    dialogue.brisk = are_datagrams(events, count) && *now_ns - began_ns < BRISK_NS;
    if (!count && *now_ns < leave_ns)
        return ARRIVED;
    tally.woken++;
    if (!are_datagrams(events, count)) {
        *(count ? &tally.others : &tally.deadlines) += 1;
        return LEAVE; /* a deadline, a signal, or something else has come */
    }
    return take_all(events, count, *now_ns, *now_ns - began_ns);
}

/* `now_ns` is what the time was, and is. */
outcome_t wait_for_network(int64_t *now_ns, const asked_t *asked) {
    outcome_t outcome = wait_once(now_ns, asked);
    if (outcome == LEAVE)
        dialogue.left = true;
    return outcome;
}

/* What else may have come, too, if that was not looked at for long. */
bool is_calm(int64_t now_ns) {
    struct epoll_event events[EVENTS];
    int count = 1, found = 0;
    keep_house();
    tell_acks(now_ns);
    bool is_calm = now_ns < due_ns() && keep_beating(now_ns);
    events[0].data.fd = dialogue.hearing_fd;
    if (is_calm && (!waits_in_socket() || are_others_due(now_ns)))
        count = look_at_all(events, now_ns, 0);
    if (is_calm && count) {
        is_calm = are_datagrams(events, count);
        found = is_calm ? drain(has_own(events, count) || answer_due_ns() != NEVER, now_ns) : 0;
        is_calm = is_calm && verdict() == ARRIVED;
        dialogue.brisk = dialogue.brisk || (is_calm && found); /* whoever is busy does not wait at all */
    }
    tally.meanwhile += is_calm && found;
    if (!is_calm)
        dialogue.left = true;
    return is_calm;
}
