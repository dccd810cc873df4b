/* The calls of a dialogue, and how they wait.
 *
 * Laws:
 *
 * 1. The interpreter's lock is held but while a thread waits for the network; whoever comes back from that looks
 *    first whether the dialogue is still the one that it left (`generation`). If not, the core has its call.
 * 2. A call is made whole, or not at all: what is out of the ordinary is left to the usual way before anything
 *    has happened. A primary's deadlines, a pause of this process, a window or a quantum that is used up, another
 *    entry than the call's, other bytes than the log's digest has: all of that is out of the ordinary.
 * 3. Datagrams that are not the connection's next message are kept in the order in which they came, and end it.
 */

#include "dialogue.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#include "../wire/crc32.h"

enum {
    LEVELS_NEEDED = 300, /* of the stack: the call may have to go the usual way from here (`runtime.driver`) */
    EVENTS = 8,
    AT_ONCE = 32,
    DRAINED_AT_MOST = 256,
    BIRTHS_MAX = 1 << 22,
    IN_VAIN_MAX = 4,
    SLEEPS_BETWEEN = 64,
    NS_IN_MS = 1000000,
    LATELY_NS = NS_IN_MS,
};

dialogue_t dialogue;
const datagram_functions *datagram;
PyObject *handed; /* instead of a result: the core has the call */

typedef enum { WAIT, LEAVE, ARRIVED, HANDED } outcome_t;

/* How often, since the process began: for people. */
static struct {
    unsigned long long lent, heard, said, handed, foreign, deadlines, others;
} times;

static int64_t monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static uint32_t digest_on(uint32_t digest, PyObject *data) {
    return ~crc32_over(~digest, (const uint8_t *)PyBytes_AS_STRING(data), (size_t)PyBytes_GET_SIZE(data));
}

/* -- waiting ----------------------------------------------------------------------------------------- */

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
    datagram_taken taken[AT_ONCE];
    int drained = 0;
    for (int left = DRAINED_AT_MOST; left > 0 && !drained; left -= AT_ONCE) {
        int count = datagram->take(dialogue.datagrams, dialogue.hearing_fd, taken, AT_ONCE, &drained);
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
    times.foreign++;
    return LEAVE;
}

static int64_t wait_until(void) {
    int64_t until_ns = dialogue.deadline_ns;
    if (dialogue.live && dialogue.retransmit_ns < until_ns)
        until_ns = dialogue.retransmit_ns;
    if (dialogue.live && dialogue.ack_due_ns < until_ns)
        until_ns = dialogue.ack_due_ns;
    return until_ns;
}

/* Of a call that wants so many bytes, or wants to say something. */
static outcome_t wait_once(int64_t now_ns, int64_t wanted, PyObject *saying, bool is_patient) {
    struct epoll_event events[EVENTS];
    int64_t until_ns = wait_until();
    uint64_t generation = dialogue.generation;
    int count, urgent = 0;
    if (now_ns >= until_ns) {
        times.deadlines++;
        return LEAVE;
    }
    dialogue.wanted = wanted;
    dialogue.saying = saying;
    dialogue.is_patient = is_patient;
    dialogue.waiting = true;
    bool is_busy = now_ns - dialogue.heard_ns < (dialogue.lazy_ns > NS_IN_MS ? dialogue.lazy_ns : NS_IN_MS);
    bool is_lazy = !dialogue.live && dialogue.lazy_ns > 0 && is_busy;
    Py_BEGIN_ALLOW_THREADS;
    count = poll_network(events, until_ns);
    if (is_lazy && count == 1 && events[0].data.fd == dialogue.hearing_fd)
        urgent = rest();
    Py_END_ALLOW_THREADS;
    if (dialogue.generation != generation) {
        times.handed++;
        return HANDED;
    }
    dialogue.waiting = false;
    dialogue.saying = NULL;
    if (count != 1 || urgent || events[0].data.fd != dialogue.hearing_fd) {
        *(count ? &times.others : &times.deadlines) += 1;
        return LEAVE; /* a deadline, a signal, or something else has come */
    }
    return drain(monotonic_ns());
}

static outcome_t wait_for_network(int64_t now_ns, int64_t wanted, PyObject *saying, bool is_patient) {
    outcome_t outcome = wait_once(now_ns, wanted, saying, is_patient);
    if (outcome == LEAVE)
        dialogue.left = true;
    return outcome;
}

/* -- hearing ----------------------------------------------------------------------------------------- */

/* The next `size` bytes of what was received; what is used up is delivered. */
static PyObject *take_bytes(int64_t size) {
    message_t *first = &dialogue.received.items[dialogue.received.first];
    PyObject *data;
    if (!dialogue.read_offset && PyBytes_GET_SIZE(first->payload) == size)
        data = Py_NewRef(first->payload);
    else
        data = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (!data)
        Py_FatalError("no memory for what was received");
    for (int64_t done = 0; done < size;) {
        first = &dialogue.received.items[dialogue.received.first];
        int64_t left = PyBytes_GET_SIZE(first->payload) - dialogue.read_offset;
        int64_t part = left < size - done ? left : size - done;
        if (data != first->payload)
            memcpy(PyBytes_AS_STRING(data) + done, PyBytes_AS_STRING(first->payload) + dialogue.read_offset,
                   (size_t)part);
        done += part;
        dialogue.read_offset += part;
        if (part == left) {
            message_t *delivered = add_message(&dialogue.delivered);
            *delivered = *first;
            dialogue.delivered_position = first->position;
            dialogue.delivered_timestamp = first->timestamp;
            dialogue.read_offset = 0;
            dialogue.received.first++;
            if (!--dialogue.received.count)
                dialogue.received.first = 0;
        }
    }
    dialogue.delivered_bytes += size;
    return data;
}

static PyObject *deliver(int64_t size, int64_t limit, bool woken, int64_t now_ns) {
    int64_t before = dialogue.delivered_position;
    PyObject *data = take_bytes(size);
    if (dialogue.delivered_position != before && dialogue.delivered_timestamp > dialogue.clock)
        dialogue.clock = dialogue.delivered_timestamp;
    if (dialogue.live)
        record_read(size);
    if (dialogue.delivered_position != before) {
        /* What the core has read already it has marked, too. */
        int64_t end = dialogue.live ? order_end() : dialogue.order_base + (int64_t)dialogue.performed;
        if (dialogue.live || dialogue.performed)
            dialogue.delivered.items[dialogue.delivered.first + dialogue.delivered.count - 1].mark = end;
    }
    if (dialogue.journalling)
        dialogue.delivered_digest = digest_on(dialogue.delivered_digest, data);
    note_birth_of_bytes(data);
    dialogue.calls++;
    dialogue.last_ns = now_ns;
    note_call(&(call_t){.time_ns = now_ns, .number = dialogue.count, .pick = dialogue.pick, .size = size,
                        .so_far = dialogue.delivered_bytes, .digest = dialogue.delivered_digest, .woken = woken,
                        .limit = limit});
    return data;
}

static bool is_spent(void) { return dialogue.calls + 1 >= dialogue.quantum; }

static bool is_far_ahead(void) { return order_end() - dialogue.group_watermark > dialogue.order_lag_bytes; }

/* At a primary: NULL if there is nothing yet, or it is to be left. */
static PyObject *hear_live(int64_t limit, bool waited, int64_t now_ns, outcome_t *outcome) {
    int64_t available = dialogue.received_bytes - dialogue.delivered_bytes;
    *outcome = is_far_ahead() || (!waited && is_spent()) ? LEAVE : WAIT;
    if (*outcome == LEAVE || !available)
        return NULL;
    if (waited) {
        record_wake();
        dialogue.pick++;
        dialogue.calls = 0;
    }
    return deliver(limit < available ? limit : available, limit, waited, now_ns);
}

static bool is_mine(const entry_t *entry, int kind, int64_t pick) {
    return entry->kind == kind && entry->pick == pick && entry->thread == dialogue.thread;
}

/* At a backup: what the log says. A thread that was woken is picked as soon as the entry behind proves that nobody
 * else was woken with it. */
static PyObject *hear_logged(int64_t limit, int64_t now_ns, outcome_t *outcome) {
    look_t look = look_at_log();
    entry_t entry;
    int64_t pick = dialogue.pick;
    *outcome = WAIT;
    next_entry(&look, &entry);
    bool woken = is_mine(&entry, WAKE, pick);
    if (woken) {
        next_entry(&look, &entry);
        pick++;
    }
    if (entry.kind == NOT_YET)
        return NULL;
    *outcome = LEAVE;
    if (!is_mine(&entry, READ, pick) || entry.fd != dialogue.fd || entry.size <= 0 || entry.size > limit)
        return NULL;
    if (entry.size > dialogue.received_bytes - dialogue.delivered_bytes || (!woken && is_spent()))
        return NULL;
    pass(&look);
    dialogue.pick = pick;
    if (woken)
        dialogue.calls = 0;
    return deliver(entry.size, limit, woken, now_ns);
}

static bool is_here(int64_t fd, int64_t now_ns) {
    return dialogue.ident && dialogue.ident == PyThread_get_thread_ident() && fd == dialogue.fd &&
           now_ns - dialogue.last_ns <= dialogue.pause_ns && dialogue.births.size < BIRTHS_MAX;
}

/* Bytes; None: it goes the usual way; HANDED: the core has the call. */
PyObject *hear(int64_t fd, int64_t limit, bool counted) {
    int64_t now_ns = monotonic_ns();
    if (limit <= 0 || !is_here(fd, now_ns) || (counted && !may_be_counted(LEVELS_NEEDED)))
        Py_RETURN_NONE;
    for (bool waited = false;; waited = true) {
        outcome_t outcome;
        PyObject *data = dialogue.live ? hear_live(limit, waited, now_ns, &outcome)
                                       : hear_logged(limit, now_ns, &outcome);
        if (data) {
            times.heard++;
            if (counted)
                count_call();
            return data;
        }
        if (outcome == WAIT)
            outcome = wait_for_network(now_ns, limit, NULL, true);
        if (outcome == HANDED)
            return Py_NewRef(handed);
        if (outcome == LEAVE)
            Py_RETURN_NONE;
        now_ns = monotonic_ns();
        if (now_ns - dialogue.last_ns > dialogue.pause_ns)
            Py_RETURN_NONE;
    }
}

/* receive(fd, limit, counted) */
static PyObject *receive(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    (void)module;
    if (count != 3)
        return PyErr_Format(PyExc_TypeError, "a descriptor, a limit and whether it is counted expected");
    if (!dialogue.ident)
        Py_RETURN_NONE;
    long long fd = PyLong_AsLongLong(arguments[0]), limit = PyLong_AsLongLong(arguments[1]);
    int counted = PyObject_IsTrue(arguments[2]);
    return PyErr_Occurred() ? NULL : hear(fd, limit, counted);
}

/* -- saying ------------------------------------------------------------------------------------------ */

static message_t *generate(PyObject *payload, int64_t timestamp, uint32_t digest, int64_t now_ns) {
    message_t *message = add_message(&dialogue.sent);
    message->position = ++dialogue.generated;
    message->timestamp = timestamp;
    message->payload = Py_NewRef(payload);
    message->digest = dialogue.sent_digest = digest;
    dialogue.sent_bytes += PyBytes_GET_SIZE(payload);
    note_birth_of_number(dialogue.send_kind, PyBytes_GET_SIZE(payload));
    dialogue.calls++;
    dialogue.last_ns = now_ns;
    note_call(&(call_t){.kind = SAID, .time_ns = now_ns, .number = dialogue.count, .pick = dialogue.pick,
                        .position = message->position, .timestamp = timestamp, .size = PyBytes_GET_SIZE(payload),
                        .digest = digest});
    return message;
}

static bool has_window(void) {
    return dialogue.sent_count + (int64_t)dialogue.sent.count < dialogue.window_messages &&
           dialogue.sent_bytes < dialogue.window_bytes;
}

static bool say_live(PyObject *payload, int64_t now_ns) {
    if (is_spent() || is_far_ahead() || !has_window() || !fits((size_t)PyBytes_GET_SIZE(payload)))
        return false;
    uint32_t digest = digest_on(dialogue.sent_digest, payload);
    record_send(++dialogue.clock, digest);
    const message_t *message = generate(payload, dialogue.clock, digest, now_ns);
    if (multicast_message(message) < 0)
        Py_FatalError("the network cannot be written");
    dialogue.transmitted = message->position;
    dialogue.ack_told = dialogue.received_up_to;
    dialogue.ack_due_ns = NEVER;
    dialogue.said_ns = now_ns;
    if (dialogue.retransmit_ns == NEVER)
        dialogue.retransmit_ns = now_ns + dialogue.retransmit_interval_ns;
    return true;
}

static outcome_t say_logged(PyObject *payload, int64_t now_ns) {
    look_t look = look_at_log();
    entry_t entry;
    next_entry(&look, &entry);
    if (entry.kind == NOT_YET)
        return WAIT;
    uint32_t digest = digest_on(dialogue.sent_digest, payload);
    if (!is_mine(&entry, SEND, dialogue.pick) || entry.fd != dialogue.fd || entry.digest != digest || is_spent())
        return LEAVE;
    dialogue.sends_decoded += look.performed != dialogue.performed;
    pass(&look);
    if (entry.timestamp > dialogue.clock)
        dialogue.clock = entry.timestamp;
    generate(payload, entry.timestamp, digest, now_ns);
    return ARRIVED;
}

/* True: it is said; None: it goes the usual way; HANDED: the core has the call. */
PyObject *say(int64_t fd, PyObject *payload, bool patient) {
    int64_t now_ns = monotonic_ns();
    while (is_here(fd, now_ns) && may_be_counted(LEVELS_NEEDED)) {
        outcome_t outcome = dialogue.live ? (say_live(payload, now_ns) ? ARRIVED : LEAVE) : say_logged(payload, now_ns);
        if (outcome == ARRIVED) {
            times.said++;
            count_call();
            Py_RETURN_TRUE;
        }
        if (outcome == WAIT)
            outcome = wait_for_network(now_ns, -1, payload, patient);
        if (outcome == HANDED)
            return Py_NewRef(handed);
        if (outcome == LEAVE)
            break;
        now_ns = monotonic_ns();
    }
    Py_RETURN_NONE;
}

/* send(fd, data, patient) */
static PyObject *send_bytes(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    (void)module;
    if (count != 3 || !PyBytes_CheckExact(arguments[1]))
        return PyErr_Format(PyExc_TypeError, "a descriptor, bytes and whether it may wait expected");
    if (!dialogue.ident)
        Py_RETURN_NONE;
    long long fd = PyLong_AsLongLong(arguments[0]);
    int patient = PyObject_IsTrue(arguments[2]);
    return PyErr_Occurred() ? NULL : say(fd, arguments[1], patient);
}

/* -- reading the clock ------------------------------------------------------------------------------- */

static bool read_live(int clock_id, int64_t local, int64_t *value) {
    clock_of *clock = &dialogue.clocks[clock_id];
    if (is_far_ahead() || __builtin_add_overflow(local, clock->offset, value) || *value < clock->last)
        return false;
    record_time(clock_id, *value);
    return true;
}

static bool read_logged(int clock_id, int64_t local, int64_t *value) {
    look_t look = look_at_log();
    entry_t entry;
    next_entry(&look, &entry);
    if (!is_mine(&entry, TIME, dialogue.pick) || entry.clock_id != clock_id ||
        entry.value < dialogue.clocks[clock_id].last)
        return false;
    if (look.performed != dialogue.performed)
        dialogue.clocks[clock_id].coded = entry.value;
    pass(&look);
    *value = entry.value;
    dialogue.clocks[clock_id].local = local;
    return true;
}

bool read_clock_in_dialogue(int clock_id, int64_t *value) {
    struct timespec now;
    if (!dialogue.ident || !may_be_counted(LEVELS_NEEDED) || is_spent() || clock_gettime(clock_id, &now))
        return false;
    int64_t local = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    int64_t now_ns = clock_id == CLOCK_MONOTONIC ? local : monotonic_ns();
    if (!is_here(dialogue.fd, now_ns) || !(dialogue.live ? read_live : read_logged)(clock_id, local, value))
        return false;
    dialogue.clocks[clock_id].last = *value;
    note_birth_of_number(dialogue.clock_kind, *value);
    dialogue.calls++;
    dialogue.last_ns = now_ns;
    note_call(&(call_t){.kind = READING, .time_ns = now_ns, .number = dialogue.count, .pick = dialogue.pick,
                        .timestamp = *value, .clock_id = clock_id});
    count_call();
    return true;
}

/* -- lending ----------------------------------------------------------------------------------------- */

static void forget(void) {
    clear_messages(&dialogue.received);
    clear_messages(&dialogue.delivered);
    clear_messages(&dialogue.sent);
    dialogue.ident = 0;
    dialogue.generation++;
    dialogue.waiting = false;
    dialogue.saying = NULL;
    dialogue.orders.size = dialogue.held.size = dialogue.numbers.size = dialogue.births.size = 0;
    dialogue.called_count = 0;
    Py_CLEAR(dialogue.datagrams);
    Py_CLEAR(dialogue.foreign);
    forget_socket();
}

static int read_numbers(PyObject *numbers) {
    dialogue_t *d = &dialogue;
    int64_t live, journalling, witnessed, delivered_digest, sent_digest, epoll_fd, urgent_fd, hearing_fd;
    int64_t *places[] = {
        /* In the order of `runtime.dialogues.Network` ... */
        &epoll_fd, &urgent_fd, &hearing_fd, &d->newest, &d->lazy_ns, &d->spin_ns, &witnessed,
        /* ... and of `core.dialogue.Lent`. */
        &live, &journalling, &d->thread, &d->fd, &d->receive_kind, &d->send_kind, &d->clock_kind,
        &d->last_ns, &d->pause_ns, &d->deadline_ns, &d->quantum, &d->calls, &d->pick, &d->count,
        &d->context_pick, &d->context_thread, &d->context_fd, &d->context_timestamp,
        &d->context_clock_id, &d->clocks[0].offset, &d->clocks[0].last, &d->clocks[1].offset, &d->clocks[1].last,
        &d->clocks[2].offset, &d->clocks[2].last, &d->clocks[0].coded, &d->clocks[1].coded, &d->clocks[2].coded,
        &d->order_base, &d->group_watermark, &d->order_committed, &d->commits_as_it_leaves,
        &d->order_lag_bytes, &d->order_carried_bytes, &d->datagram_bytes, &d->clock,
        &d->in_base, &d->out_base, &d->out_view_num, &d->in_view_num,
        &d->received_up_to, &d->received_bytes, &d->delivered_bytes, &d->delivered_position,
        &d->delivered_timestamp, &delivered_digest, &sent_digest,
        &d->ack_told, &d->acked, &d->acked_in_view, &d->transmitted, &d->generated,
        &d->remote_watermark, &d->sent_count, &d->sent_bytes, &d->window_messages, &d->window_bytes,
        &d->members_timestamp, &d->heard_ns, &d->said_ns, &d->ack_due_ns, &d->retransmit_ns,
        &d->ack_delay_ns, &d->ack_patience_ns, &d->retransmit_interval_ns,
        &d->held_base, &d->held_unreflected, &d->held_watermark, &d->held_committed, &d->held_limit,
        &d->may_decode,
        &d->connection_id[0], &d->connection_id[1], &d->connection_id[2], &d->who[0], &d->who[1], &d->who[2],
        &d->who[3], &d->who[4], &d->who[5], &d->who[6], &d->who[7], &d->who[8],
    };
    Py_ssize_t count = sizeof places / sizeof *places;
    if (PyTuple_GET_SIZE(numbers) != count) {
        PyErr_Format(PyExc_ValueError, "%zd numbers expected, not %zd", count, PyTuple_GET_SIZE(numbers));
        return -1;
    }
    for (Py_ssize_t at = 0; at < count; at++) {
        *places[at] = PyLong_AsLongLong(PyTuple_GET_ITEM(numbers, at));
        if (*places[at] == -1 && PyErr_Occurred())
            return -1;
    }
    d->live = live != 0;
    d->journalling = journalling != 0;
    d->witnessed = witnessed != 0;
    d->delivered_digest = (uint32_t)delivered_digest;
    d->sent_digest = (uint32_t)sent_digest;
    d->epoll_fd = (int)epoll_fd;
    d->urgent_fd = (int)urgent_fd;
    d->hearing_fd = (int)hearing_fd;
    d->read_offset = 0;
    d->performed = 0;
    d->sends_decoded = 0;
    d->left = false;
    for (int at = 0; at < CLOCKS; at++)
        d->clocks[at].local = 0;
    return 0;
}

static int read_destinations(PyObject *addresses) {
    Py_ssize_t count = PySequence_Size(addresses);
    if (count < 0 || count > DESTINATIONS_MAX) {
        PyErr_SetString(PyExc_ValueError, "too many destinations");
        return -1;
    }
    for (Py_ssize_t at = 0; at < count; at++) {
        PyObject *pair = PySequence_GetItem(addresses, at);
        int failed = !pair || datagram->read_address(pair, &dialogue.to[at]) < 0;
        Py_XDECREF(pair);
        if (failed)
            return -1;
    }
    dialogue.to_count = (int)count;
    return 0;
}

static int load_datagrams(void) {
    if (!datagram) {
        PyObject *module = PyImport_ImportModule("llft.runtime.transport.datagrams");
        PyObject *capsule = module ? PyObject_GetAttrString(module, "functions") : NULL;
        datagram = capsule ? PyCapsule_GetPointer(capsule, DATAGRAMS_CAPSULE) : NULL;
        Py_XDECREF(capsule);
        Py_XDECREF(module);
    }
    return datagram ? 0 : -1;
}

/* (position, timestamp, view, flags, payload, end of its order information) */
static int read_received(PyObject *messages) {
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(messages); at++) {
        long long position, timestamp, end;
        PyObject *view, *payload, *one = PyList_GET_ITEM(messages, at);
        int flags;
        if (!PyTuple_Check(one) ||
            !PyArg_ParseTuple(one, "LLOiSL", &position, &timestamp, &view, &flags, &payload, &end))
            return -1;
        message_t *message = add_message(&dialogue.received);
        message->position = position;
        message->timestamp = timestamp;
        message->order_end = end;
        message->payload = Py_NewRef(payload);
    }
    return 0;
}

/* lend(ident, numbers, in_prefix, out_prefix, birth, orders, held, entries, received, datagrams, destinations) */
static PyObject *lend(PyObject *module, PyObject *arguments) {
    (void)module;
    unsigned long ident;
    PyObject *numbers, *entries, *received, *datagrams, *destinations;
    const char *in_prefix, *out_prefix, *birth, *orders, *held;
    Py_ssize_t in_size, out_size, birth_size, orders_size, held_size;
    if (!PyArg_ParseTuple(arguments, "kO!y#y#y#y#y#O!O!OO", &ident, &PyTuple_Type, &numbers, &in_prefix, &in_size,
                          &out_prefix, &out_size, &birth, &birth_size, &orders, &orders_size, &held, &held_size,
                          &PyList_Type, &entries, &PyList_Type, &received, &datagrams, &destinations))
        return NULL;
    if (dialogue.ident)
        return PyErr_Format(PyExc_RuntimeError, "a dialogue is lent");
    if (in_size != PREFIX_BYTES || out_size != PREFIX_BYTES || birth_size != DATAGRAMS_BIRTH_BYTES)
        return PyErr_Format(PyExc_ValueError, "a prefix or a birth has another length");
    forget();
    if (load_datagrams() < 0 || read_numbers(numbers) < 0 || read_destinations(destinations) < 0 ||
        read_received(received) < 0)
        return NULL;
    read_ahead(entries);
    memcpy(dialogue.in_prefix, in_prefix, PREFIX_BYTES);
    memcpy(dialogue.out_prefix, out_prefix, PREFIX_BYTES);
    memcpy(dialogue.birth, birth, DATAGRAMS_BIRTH_BYTES);
    put_bytes(&dialogue.orders, orders, (size_t)orders_size);
    put_bytes(&dialogue.held, held, (size_t)held_size);
    dialogue.unreflected = dialogue.order_base;
    dialogue.order_begun = order_end();
    dialogue.foreign = PyList_New(0);
    if (!dialogue.foreign)
        return NULL;
    dialogue.datagrams = Py_NewRef(datagrams);
    dialogue.ident = ident;
    times.lent++;
    Py_RETURN_NONE;
}

static PyObject *is_lent(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    return PyBool_FromLong(dialogue.ident != 0);
}

/* Its thread waits for the network, or has called a moment ago: in both cases it leaves by itself for what is
 * due, or for what has come. */
static PyObject *serves(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    return PyBool_FromLong(dialogue.ident && (dialogue.waiting || monotonic_ns() - dialogue.last_ns < LATELY_NS));
}

static PyObject *is_waiting(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    return PyBool_FromLong(dialogue.ident && dialogue.waiting);
}

/* take_back(): what has become of it; the call that waits: how many bytes it wants, or what it says and
 * whether it would wait for the window; whether it ended for what came from outside. */
static PyObject *take_back(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    dialogue.ident = 0; /* whatever is run by what follows makes its calls the usual way */
    PyObject *made = !dialogue.waiting || mark_receiving() == 0 ? account() : NULL, *result = NULL;
    if (made) {
        PyObject *saying = dialogue.waiting && dialogue.saying ? dialogue.saying : Py_None;
        long long wanted = dialogue.waiting && !dialogue.saying ? dialogue.wanted : -1;
        result = Py_BuildValue("NLOOO", made, wanted, saying, dialogue.is_patient ? Py_True : Py_False,
                               dialogue.left || dialogue.waiting ? Py_True : Py_False);
    }
    forget();
    return result;
}

static PyObject *statistics(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    return Py_BuildValue("{sKsKsKsKsKsKsK}", "dialogues", times.lent, "heard", times.heard, "said", times.said,
                         "handed", times.handed, "foreign", times.foreign, "deadlines", times.deadlines, "others",
                         times.others);
}

PyMethodDef dialogue_methods[] = {
    {"receive", (PyCFunction)(void (*)(void))receive, METH_FASTCALL, "Hear, in a dialogue."},
    {"send", (PyCFunction)(void (*)(void))send_bytes, METH_FASTCALL, "Say, in a dialogue."},
    {"lend_dialogue", lend, METH_VARARGS, "Lend a thread a dialogue."},
    {"is_talking", is_lent, METH_NOARGS, "Whether a dialogue is lent."},
    {"is_waiting", is_waiting, METH_NOARGS, "Whether its thread waits for the network."},
    {"serves", serves, METH_NOARGS, "Whether its thread serves the network."},
    {"speak_for", speak_for, METH_O, "The methods of a type of sockets that move bytes are ours."},
    {"know", (PyCFunction)(void (*)(void))know, METH_FASTCALL, "Which socket the dialogue's is."},
    {"forget_known", forget_known, METH_NOARGS, "It is in a state that only Python knows."},
    {"dialogue_statistics", statistics, METH_NOARGS, "What happened how often."},
    {"take_dialogue_back", take_back, METH_NOARGS, "What has become of it."},
    {0},
};

int begin_dialogues(PyObject *module) {
    crc32_begin();
    handed = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type);
    if (!handed)
        return -1;
    return PyModule_AddObjectRef(module, "HANDED", handed) < 0 || PyModule_AddFunctions(module, dialogue_methods) < 0
               ? -1
               : 0;
}
