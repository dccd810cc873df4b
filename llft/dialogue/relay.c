/* What a gateway does on its connections as long as it only passes on (docs/DEVIATIONS.md, D-76): bytes of a TCP
 * connection to the group, and what the group says, when it is committed, to the TCP connection. The twin of the two
 * virtual threads of `runtime.gateway.relay`, and of `core.holding` as far as a group hears that something is held.
 *
 * It is one call, which lasts until something is to be done that is none of this. There is one native thread, so
 * nobody takes anything back meanwhile.
 *
 * Laws:
 *
 * 1. What was read from TCP is said, once, in order, by the thread that would have read it; what is heard is
 *    written once, in order, and heard only if it is committed.
 * 2. Nothing is read from TCP that could not be said, and nothing more is heard for a stream that takes no more.
 * 3. What is out of the ordinary (an end, an error, a full window, another datagram or descriptor, a deadline) ends it
 *    before anything has happened to it: it is told, and Python sees to it. A pause of this process is none: who is
 *    alone in its group has nobody to doubt.
 */

#include "dialogue.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum {
    TO_GROUP = 0,
    EVENTS = 64,
    NS_IN_MS = 1000000,
    BUFFER_BYTES = 1 << 16,
    CALLED_MAX = 8192,
    DRAINED_AT_MOST = 256, /* by one look, and what has come with the last of them, */
    CALLS_AT_MOST = 32,    /* or by so many calls of the system */
    LOOKING_NS = 50000, /* for a commit */
    BIRTH_BYTES = 16,
    NOBODY = -1,
};

/* A TCP connection, and the connection with the group that it is joined to. */
typedef struct {
    int fd;
    connection_t *c;
    int64_t upstream, downstream; /* the threads */
    int64_t bytes_in, bytes_out;
    bool may_read;    /* there is, or may be, something that was not read */
    int error;        /* of the system, 0: none */
    PyObject *unsent; /* what was heard, and it did not take */
} stream_t;

/* Of a group: the backup whose word commits. */
typedef struct {
    bool is_known;
    uint8_t birth[DATAGRAMS_BIRTH_BYTES], prefix[PREFIX_BYTES];
    int64_t newest;
    bytes_t numbers; /* of its datagrams that were taken, eight bytes each */
} answerer_t;

typedef struct __attribute__((packed)) {
    uint8_t sender[BIRTH_BYTES];
    uint64_t end;
} held_t;

static stream_t streams[CONNECTIONS_MAX];
static int stream_count;
static int16_t by_stream_fd[PLACES]; /* places of streams; NOBODY: none */
static answerer_t answerers[REMOTES_MAX];
static PyObject *ready; /* a list: (descriptor, what has happened to it), for Python */
static bool is_over;
static int64_t read_bytes, hear_bytes; /* at a time */

/* -- which stream ------------------------------------------------------------------------------------ */

static void place_streams(void) {
    memset(by_stream_fd, NOBODY, sizeof by_stream_fd);
    for (int at = 0; at < stream_count; at++) {
        unsigned place = (unsigned)streams[at].fd % PLACES;
        while (by_stream_fd[place] != NOBODY)
            place = (place + 1) % PLACES;
        by_stream_fd[place] = (int16_t)at;
    }
}

static stream_t *stream_of(int fd) {
    for (unsigned at = (unsigned)fd % PLACES; by_stream_fd[at] != NOBODY; at = (at + 1) % PLACES)
        if (streams[by_stream_fd[at]].fd == fd)
            return &streams[by_stream_fd[at]];
    return NULL;
}

/* -- from TCP to the group --------------------------------------------------------------------------- */

/* This member is alone in its group: what it has delivered, all members have. */
static void tell_delivered(connection_t *c) {
    if (c->delivered_timestamp > c->members_timestamp)
        c->members_timestamp = c->delivered_timestamp;
}

static void say_for(stream_t *stream, const uint8_t *data, Py_ssize_t size, int64_t now_ns) {
    PyObject *payload = PyBytes_FromStringAndSize((const char *)data, size);
    if (!payload)
        out_of_memory();
    dialogue.thread = stream->upstream;
    tell_delivered(stream->c);
    if (!say_live(stream->c, payload, now_ns))
        Py_FatalError("a gateway has read what it may not say");
    Py_DECREF(payload);
    stream->bytes_in += size;
}

/* All that is there, as far as it may be said. A read that gives less than was asked for has emptied the kernel's
 * buffer, and what comes then is another edge. */
static void pass_up(stream_t *stream, int64_t now_ns) {
    static uint8_t buffer[BUFFER_BYTES];
    for (ssize_t size = read_bytes; size == read_bytes && dialogue.called_count < CALLED_MAX;) {
        stream->may_read = true;
        if (!may_say(stream->c, now_ns))
            break;
        size = recv(stream->fd, buffer, (size_t)read_bytes, MSG_DONTWAIT);
        if (!size)
            break; /* the end, which is there for whoever reads again */
        stream->may_read = false;
        if (size > 0)
            say_for(stream, buffer, size, now_ns);
        else if (errno != EAGAIN && errno != EINTR)
            stream->error = errno;
        else
            stream->may_read = errno == EINTR;
    }
    if (dialogue.called_count >= CALLED_MAX)
        stream->may_read = true;
    is_over |= stream->may_read || stream->error;
}

/* -- from the group to TCP --------------------------------------------------------------------------- */

/* Bytes of the first messages that are committed. */
static int64_t committed_bytes(const connection_t *c) {
    int64_t committed = dialogue.remotes[c->remote].committed, total = -c->read_offset;
    for (size_t at = 0; at < c->received.count; at++) {
        const message_t *message = &c->received.items[c->received.first + at];
        if (message->order_end > committed)
            break;
        total += PyBytes_GET_SIZE(message->payload);
    }
    return total;
}

static void keep_rest(stream_t *stream, PyObject *data, Py_ssize_t sent) {
    stream->unsent = PyBytes_FromStringAndSize(PyBytes_AS_STRING(data) + sent, PyBytes_GET_SIZE(data) - sent);
    if (!stream->unsent)
        out_of_memory();
    is_over = true;
}

static void write_down(stream_t *stream, PyObject *data) {
    Py_ssize_t size = PyBytes_GET_SIZE(data);
    ssize_t sent = send(stream->fd, PyBytes_AS_STRING(data), (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL);
    stream->bytes_out += size;
    if (sent == size)
        return;
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        stream->error = errno;
        is_over = true;
    } else {
        keep_rest(stream, data, sent < 0 ? 0 : sent);
    }
}

static void pass_down(stream_t *stream, int64_t now_ns) {
    connection_t *c = stream->c;
    int64_t size;
    while (!stream->unsent && !stream->error && (size = committed_bytes(c)) > 0) {
        if (is_far_ahead()) {
            is_over = true;
            return;
        }
        dialogue.thread = stream->downstream;
        PyObject *data = deliver(c, size < hear_bytes ? size : hear_bytes, hear_bytes, false, false, now_ns);
        write_down(stream, data);
        Py_DECREF(data);
    }
}

static void pass_all_down(int64_t now_ns) {
    for (int at = 0; at < stream_count; at++)
        if (streams[at].c->received.count)
            pass_down(&streams[at], now_ns);
}

/* -- datagrams --------------------------------------------------------------------------------------- */

/* A backup says that it holds what was said (D-75), and nothing else. */
static bool take_answer(const datagram_taken *taken, int64_t now_ns) {
    static const dynamic_t plain = {.fragment_count = 1, .payload_length = sizeof(held_t)};
    held_t held;
    if (taken->channel != TO_GROUP || taken->size != HEADER_BYTES + sizeof held ||
        memcmp(taken->data + PREFIX_BYTES, &plain, sizeof plain))
        return false;
    memcpy(&held, taken->data + HEADER_BYTES, sizeof held);
    for (int at = 0; at < dialogue.remote_count; at++) {
        answerer_t *answerer = &answerers[at];
        if (!answerer->is_known || memcmp(taken->data, answerer->prefix, PREFIX_BYTES) ||
            memcmp(taken->identity + DATAGRAMS_BIRTH_IN_IDENTITY, answerer->birth, DATAGRAMS_BIRTH_BYTES))
            continue;
        if ((int64_t)taken->number <= answerer->newest || held.end >= (uint64_t)1 << 61)
            return false;
        answerer->newest = (int64_t)taken->number;
        put_bytes(&answerer->numbers, &taken->number, sizeof taken->number);
        dialogue.remotes[at].used = true;
        dialogue.heard_ns = now_ns;
        if ((int64_t)held.end > dialogue.remotes[at].committed)
            dialogue.remotes[at].committed = (int64_t)held.end;
        return true;
    }
    return false;
}

static void look_at(const datagram_taken *taken, int64_t now_ns) {
    if (!PyList_GET_SIZE(dialogue.foreign) &&
        (take_datagram(taken, now_ns) || take_answer(taken, now_ns) || take_keep_alive(taken, now_ns)))
        return;
    PyObject *one = datagram->as_tuple(taken);
    if (!one || PyList_Append(dialogue.foreign, one) < 0)
        out_of_memory();
    Py_DECREF(one);
    tally.foreign++;
    is_over = true;
}

/* But for what would keep clients, deadlines and signals waiting: the rest is there at the next look. */
static void hear_all(int64_t now_ns) {
    const datagram_taken *taken;
    int drained = 0;
    for (int calls = 0, found = 0; calls < CALLS_AT_MOST && found < DRAINED_AT_MOST && !drained && !is_over; calls++) {
        int count = datagram->take(dialogue.datagrams, dialogue.hearing_fd, &taken, &drained);
        if (count < 0)
            Py_FatalError("the network cannot be read");
        for (int at = 0; at < count; at++)
            look_at(&taken[at], now_ns);
        found += count;
    }
}

/* -- the loop ---------------------------------------------------------------------------------------- */

static void leave_to_python(const struct epoll_event *event) {
    PyObject *one = Py_BuildValue("iI", event->data.fd, (unsigned)event->events);
    if (!one || PyList_Append(ready, one) < 0)
        out_of_memory();
    Py_DECREF(one);
    tally.others++;
    is_over = true;
}

/* Streams are told by edges: one that is not seen to here must be told. */
static void see_to(const struct epoll_event *event, int64_t now_ns) {
    stream_t *stream = stream_of(event->data.fd);
    if (event->data.fd == dialogue.hearing_fd)
        hear_all(now_ns);
    else if (!stream || event->events & ~(unsigned)(EPOLLIN | EPOLLOUT) || stream->error)
        leave_to_python(event);
    else if (event->events & EPOLLIN)
        pass_up(stream, now_ns);
}

/* One client talks, and its reply is here and waits for nothing but the commit: a backup is about to say that it holds
 * it, and its primary has nothing to do. Where several talk, others need the core. */
static bool awaits_only_a_commit(int64_t now_ns) {
    int talking = 0, held_back = 0;
    for (int at = 0; at < stream_count; at++) {
        const connection_t *c = streams[at].c;
        talking += now_ns - c->said_ns < NS_IN_MS;
        held_back += c->received.count > 0 && c->said_ns < c->heard_ns;
    }
    return talking == 1 && held_back == 1;
}

/* To be woken on another core takes longer than what is waited for takes to come. */
static int look_for_commit(looks_t *looks, struct epoll_event *events) {
    int64_t began_ns = monotonic_ns(), now_ns = began_ns;
    int count = 0;
    tally.sought++;
    for (; !count && now_ns - began_ns < LOOKING_NS; now_ns = monotonic_ns())
        count = epoll_wait(dialogue.epoll_fd, events, EVENTS, 0);
    return has_looked(looks, count, now_ns - began_ns);
}

static int wait_until(struct epoll_event *events, int64_t now_ns, int64_t until_ns) {
    static looks_t looks;
    int64_t left_ms = (until_ns - now_ns + NS_IN_MS - 1) / NS_IN_MS;
    bool awaits = awaits_only_a_commit(now_ns), looks_first = awaits && is_promising(&looks);
    int count = 0;
    Py_BEGIN_ALLOW_THREADS;
    if (looks_first)
        count = look_for_commit(&looks, events);
    if (!count)
        count = epoll_wait(dialogue.epoll_fd, events, EVENTS, left_ms > 1000 ? 1000 : (int)left_ms);
    Py_END_ALLOW_THREADS;
    if (awaits && !looks_first)
        has_slept(&looks, monotonic_ns() - now_ns);
    return count;
}

static void relay_once(int64_t until_ns) {
    struct epoll_event events[EVENTS];
    int64_t now_ns = monotonic_ns(), due = due_ns(), leave_ns = due < until_ns ? due : until_ns;
    int count = now_ns < leave_ns ? wait_until(events, now_ns, leave_ns) : 0;
    if (count <= 0) {
        is_over = true; /* a deadline, or a signal */
        tally.deadlines++;
        return;
    }
    dialogue.last_ns = now_ns = monotonic_ns();
    for (int at = 0; at < count; at++)
        see_to(&events[at], now_ns);
    pass_all_down(now_ns);
}

/* -- its arguments, and what it tells ------------------------------------------------------------------ */

/* (descriptor, place of the connection, thread that says, thread that hears) */
static int read_streams(PyObject *list) {
    stream_count = 0;
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(list); at++) {
        int fd, place;
        long long upstream, downstream;
        if (stream_count == CONNECTIONS_MAX ||
            !PyArg_ParseTuple(PyList_GET_ITEM(list, at), "iiLL", &fd, &place, &upstream, &downstream) || place < 0 ||
            place >= dialogue.connection_count) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "too many streams, or one of no connection");
            return -1;
        }
        streams[stream_count++] = (stream_t){
            .fd = fd, .c = &dialogue.connections[place], .upstream = upstream, .downstream = downstream};
    }
    place_streams();
    return 0;
}

/* (birth, newest number, prefix) for each group, or None */
static int read_answerers(PyObject *list) {
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(list) && at < REMOTES_MAX; at++) {
        answerer_t *answerer = &answerers[at];
        PyObject *one = PyList_GET_ITEM(list, at);
        const char *birth, *prefix;
        Py_ssize_t birth_size, prefix_size;
        long long newest;
        answerer->numbers.size = 0;
        answerer->is_known = one != Py_None;
        if (!answerer->is_known)
            continue;
        if (!PyArg_ParseTuple(one, "y#Ly#", &birth, &birth_size, &newest, &prefix, &prefix_size) ||
            birth_size != DATAGRAMS_BIRTH_BYTES || prefix_size != PREFIX_BYTES) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "a birth or a prefix has another length");
            return -1;
        }
        answerer->newest = newest;
        memcpy(answerer->birth, birth, DATAGRAMS_BIRTH_BYTES);
        memcpy(answerer->prefix, prefix, PREFIX_BYTES);
    }
    return 0;
}

/* Of each stream: bytes in and out, whether there may be more to read, what it did not take, and its error. */
static PyObject *streams_now(void) {
    PyObject *list = PyList_New(stream_count);
    for (int at = 0; list && at < stream_count; at++) {
        stream_t *stream = &streams[at];
        PyObject *unsent = stream->unsent ? stream->unsent : PyBytes_FromStringAndSize("", 0);
        PyObject *one = Py_BuildValue("LLONi", (long long)stream->bytes_in, (long long)stream->bytes_out,
                                      stream->may_read ? Py_True : Py_False, unsent, stream->error);
        stream->unsent = NULL;
        if (!one)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, at, one);
    }
    return list;
}

static PyObject *numbers_now(void) {
    PyObject *list = PyList_New(dialogue.remote_count);
    for (int at = 0; list && at < dialogue.remote_count; at++) {
        PyObject *one = runs_in(&answerers[at].numbers);
        if (!one)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, at, one);
    }
    return list;
}

/* relay(streams, answerers, until_ns, read_bytes, hear_bytes), of what was lent just now: what has happened to other
 * descriptors; to each stream; numbers of what each answerer said. */
PyObject *relay(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *streams_lent, *answerers_lent;
    long long until_ns;
    if (!PyArg_ParseTuple(arguments, "O!O!LLL", &PyList_Type, &streams_lent, &PyList_Type, &answerers_lent, &until_ns,
                          &read_bytes, &hear_bytes))
        return NULL;
    if (!dialogue.ident || !dialogue.live || PyList_GET_SIZE(answerers_lent) != dialogue.remote_count ||
        read_bytes <= 0 || read_bytes > BUFFER_BYTES)
        return PyErr_Format(PyExc_ValueError, "nothing is lent, or something else");
    if (read_streams(streams_lent) < 0 || read_answerers(answerers_lent) < 0 || !(ready = PyList_New(0)))
        return NULL;
    dialogue.is_relay = dialogue.brisk = true;
    is_over = false;
    for (int at = 0; at < dialogue.connection_count; at++) {
        is_readable(&dialogue.connections[at], NEVER); /* there is little, and all of it is looked at */
        is_over |= has_backlog(&dialogue.connections[at]);
    }
    if (!is_over)
        pass_all_down(monotonic_ns());
    while (!is_over && dialogue.called_count < CALLED_MAX)
        relay_once(until_ns);
    dialogue.left = true;
    return Py_BuildValue("NNN", ready, streams_now(), numbers_now());
}
