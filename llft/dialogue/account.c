/* What is told of a dialogue when it is taken back, and the lists that it keeps until then. */

#include "dialogue.h"

#include <string.h>

#include "../wire/crc32.h"

void out_of_memory(void) { Py_FatalError("a dialogue has no memory for what was said already"); }

uint8_t *grow(bytes_t *bytes, size_t more) {
    if (bytes->size + more > bytes->room) {
        size_t room = 2 * (bytes->size + more) + 64;
        uint8_t *data = PyMem_RawRealloc(bytes->data, room);
        if (!data)
            out_of_memory();
        bytes->data = data;
        bytes->room = room;
    }
    bytes->size += more;
    return bytes->data + bytes->size - more;
}

void put_bytes(bytes_t *bytes, const void *data, size_t size) {
    if (size)
        memcpy(grow(bytes, size), data, size);
}

void drop_front(bytes_t *bytes, size_t size) {
    memmove(bytes->data, bytes->data + size, bytes->size - size);
    bytes->size -= size;
}

message_t *add_message(messages_t *messages) {
    if (messages->first + messages->count == messages->room) {
        if (messages->first > messages->count) {
            memmove(messages->items, messages->items + messages->first, messages->count * sizeof *messages->items);
            messages->first = 0;
        } else {
            size_t room = 2 * messages->room + 64;
            message_t *items = PyMem_RawRealloc(messages->items, room * sizeof *items);
            if (!items)
                out_of_memory();
            messages->items = items;
            messages->room = room;
        }
    }
    message_t *message = &messages->items[messages->first + messages->count++];
    memset(message, 0, sizeof *message);
    return message;
}

void clear_messages(messages_t *messages) {
    for (size_t at = 0; at < messages->count; at++)
        Py_XDECREF(messages->items[messages->first + at].payload);
    messages->first = messages->count = 0;
}

/* -- while it lasts ---------------------------------------------------------------------------------- */

void note_call(const call_t *call) {
    if (dialogue.called_count == dialogue.called_room) {
        size_t room = 2 * dialogue.called_room + 64;
        call_t *called = PyMem_RawRealloc(dialogue.called, room * sizeof *called);
        if (!called)
            out_of_memory();
        dialogue.called = called;
        dialogue.called_room = room;
    }
    dialogue.called[dialogue.called_count] = *call;
    dialogue.called[dialogue.called_count++].thread = dialogue.thread;
}

void note_witnessed(PyObject *fds, int64_t timeout_ns, PyObject *writing, bool interruptible) {
    PyObject *one = Py_BuildValue("OLOO", fds, (long long)timeout_ns, writing, interruptible ? Py_True : Py_False);
    if (!one || PyList_Append(dialogue.selected, one) < 0)
        out_of_memory();
    Py_DECREF(one);
}

/* -- when it is over --------------------------------------------------------------------------------- */

/* The core's own kinds of messages, which are tuples with names. */
static PyTypeObject *received_message, *sent_message;

static PyTypeObject *kind_of_message(PyObject *module, const char *name) {
    PyObject *type = module ? PyObject_GetAttrString(module, name) : NULL;
    if (type && (!PyType_Check(type) || !PyType_IsSubtype((PyTypeObject *)type, &PyTuple_Type))) {
        PyErr_Format(PyExc_TypeError, "%s is no kind of tuple", name);
        Py_CLEAR(type);
    }
    return (PyTypeObject *)type;
}

int know_kinds_of_messages(void) {
    PyObject *module = sent_message ? NULL : PyImport_ImportModule("llft.core.messaging.kept");
    if (module) {
        received_message = kind_of_message(module, "ReceivedMessage");
        sent_message = received_message ? kind_of_message(module, "SentMessage") : NULL;
    }
    Py_XDECREF(module);
    return sent_message ? 0 : -1;
}

/* Of objects that it takes over, at most six; NULL if one of them is. */
static PyObject *tuple_like(PyTypeObject *type, Py_ssize_t count, PyObject *const *items) {
    PyObject *tuple = type->tp_alloc(type, count);
    bool failed = !tuple;
    for (Py_ssize_t at = 0; at < count; at++) {
        failed |= !items[at];
        if (tuple)
            PyTuple_SET_ITEM(tuple, at, items[at]);
        else
            Py_XDECREF(items[at]);
    }
    if (failed)
        Py_CLEAR(tuple);
    return tuple;
}

static PyObject *number(int64_t value) { return PyLong_FromLongLong(value); }

/* In the order of `core.messaging.kept.ReceivedMessage`. */
static PyObject *as_received(const connection_t *c, const message_t *message) {
    return tuple_like(received_message, 6, (PyObject *[]){number(message->position), number(message->timestamp),
                      Py_NewRef(c->view), number(0), Py_NewRef(message->payload), number(message->order_end)});
}

/* In the order of `core.messaging.kept.SentMessage`. */
static PyObject *as_sent(const connection_t *c, const message_t *message) {
    (void)c;
    return tuple_like(sent_message, 5, (PyObject *[]){number(message->position), number(message->timestamp), number(0),
                      Py_NewRef(message->payload), number(message->digest)});
}

static PyObject *listed(const connection_t *c, const messages_t *messages,
                        PyObject *(*as_object)(const connection_t *, const message_t *)) {
    PyObject *list = PyList_New((Py_ssize_t)messages->count);
    for (size_t at = 0; list && at < messages->count; at++) {
        PyObject *one = as_object(c, &messages->items[messages->first + at]);
        if (!one)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)at, one);
    }
    return list;
}

static int add(PyObject *list, PyObject *item) {
    int failed = item ? PyList_Append(list, item) : -1;
    Py_XDECREF(item);
    return failed;
}

/* Of what was delivered: up to where the order log says so, and the positions and timestamps. */
static PyObject *marks_of(const messages_t *messages) {
    PyObject *list = PyList_New(0);
    for (size_t at = 0; list && at < messages->count; at++) {
        const message_t *message = &messages->items[messages->first + at];
        if (message->mark && add(list, tuple_like(&PyTuple_Type, 3, (PyObject *[]){number(message->mark),
                                 number(message->position), number(message->timestamp)})) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* The same of checksums of large payloads that are known: positions, and what they are. */
static PyObject *known_of(const messages_t *messages) {
    PyObject *list = PyList_New(0);
    for (size_t at = 0; list && at < messages->count; at++) {
        const message_t *message = &messages->items[messages->first + at];
        bool is_large = PyBytes_GET_SIZE(message->payload) >= LARGE_BYTES;
        if (is_large && message->has_checksum && add(list, Py_BuildValue("LI", (long long)message->position, message->checksum)) < 0)
            Py_CLEAR(list);
    }
    return list;
}

PyObject *times_in(const bytes_t *times) {
    size_t count = times->size / sizeof(int64_t);
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t at = 0; list && at < count; at++) {
        int64_t time_ns;
        memcpy(&time_ns, times->data + at * sizeof time_ns, sizeof time_ns);
        PyObject *one = number(time_ns);
        if (!one)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)at, one);
    }
    return list;
}

PyObject *runs_in(const bytes_t *numbers) {
    size_t count = numbers->size / sizeof(uint64_t);
    PyObject *list = PyList_New(0);
    for (size_t at = 0, end; list && at < count; at = end) {
        uint64_t first, next;
        memcpy(&first, numbers->data + at * sizeof first, sizeof first);
        for (end = at + 1; end < count; end++) {
            memcpy(&next, numbers->data + end * sizeof next, sizeof next);
            if (next != first + (end - at))
                break;
        }
        if (add(list, Py_BuildValue("Kn", (unsigned long long)first, (Py_ssize_t)(end - at))) < 0)
            Py_CLEAR(list);
    }
    return list;
}

size_t readings_from(size_t at) {
    const call_t *first = &dialogue.called[at];
    size_t count = 0;
    while (at + count < dialogue.called_count && first[count].kind == READING &&
           first[count].clock_id == first->clock_id && first[count].pick == first->pick)
        count++;
    return count;
}

/* As (clock, its readings). */
static PyObject *readings(size_t at, size_t count) {
    PyObject *values = PyList_New((Py_ssize_t)count);
    for (size_t index = 0; values && index < count; index++) {
        PyObject *one = PyLong_FromLongLong(dialogue.called[at + index].timestamp);
        if (!one)
            Py_CLEAR(values);
        else
            PyList_SET_ITEM(values, (Py_ssize_t)index, one);
    }
    return values;
}

static int note_readings(void) {
    int failed = 0;
    for (size_t at = 0, count; !failed && at < dialogue.called_count; at += count ? count : 1) {
        count = readings_from(at);
        if (count)
            failed = add(dialogue.readings, Py_BuildValue("iN", dialogue.called[at].clock_id, readings(at, count)));
    }
    return failed;
}

static int note_all_calls(void) { return journal_frames(dialogue.frames) < 0 || note_readings() < 0 ? -1 : 0; }

void seal_calls(void) {
    if (dialogue.witnessed || !dialogue.called_count)
        return;
    if (note_all_calls() < 0)
        out_of_memory();
    dialogue.sealed_count += dialogue.called_count;
    dialogue.called_count = dialogue.counted.size = 0;
}

/* For a witness of what the program called: the kind as the birth log has it, and what it was about. */
static PyObject *witnessed(void) {
    PyObject *list = PyList_New(0);
    for (size_t at = 0; list && dialogue.witnessed && at < dialogue.called_count; at++) {
        const call_t *call = &dialogue.called[at];
        int64_t kind = 0, fd = 0, about = 0;
        bool on_connection = call->kind == HEARD || call->kind == SAID || call->kind == NOTHING_THERE;
        if (on_connection)
            fd = dialogue.connections[call->connection].fd;
        switch (call->kind) {
        case HEARD: kind = dialogue.receive_kind, about = call->limit; break;
        case NOTHING_THERE: kind = dialogue.receive_kind, about = call->size; break;
        case SAID: kind = dialogue.send_kind; break;
        case READING: kind = dialogue.clock_kind, about = call->clock_id; break;
        case DRAWN: kind = dialogue.random_kind, about = call->size; break;
        case SELECTED:
        case SELECTED_ON_SOCKET: kind = dialogue.select_kind; break;
        case WOKE: continue;
        }
        if (add(list, Py_BuildValue("LLLO", (long long)kind, (long long)fd, (long long)about,
                                    call->looked ? Py_True : Py_False)) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *as_bytes(const uint8_t *data, size_t size) {
    return PyBytes_FromStringAndSize(size ? (const char *)data : "", (Py_ssize_t)size);
}

static PyObject *tuple_of(const int64_t *values, Py_ssize_t count) {
    PyObject *tuple = PyTuple_New(count);
    for (Py_ssize_t at = 0; tuple && at < count; at++) {
        PyObject *one = PyLong_FromLongLong(values[at]);
        if (!one)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, at, one);
    }
    return tuple;
}

/* In the order of `core.dialogue_made.Numbers`. */
static PyObject *numbers_now(void) {
    const dialogue_t *d = &dialogue;
    int64_t own = d->live ? d->unreflected : d->order_base + (int64_t)d->performed;
    int64_t values[] = {
        d->last_ns, d->calls, d->pick, d->count,
        d->context_pick, d->context_thread, d->context_fd, d->context_timestamp,
        d->context_clock_id, d->clocks[0].local, d->clocks[1].local, d->clocks[2].local,
        d->clocks[0].coded, d->clocks[1].coded, d->clocks[2].coded,
        own, d->order_committed, d->clock, (int64_t)d->ahead_at, (int64_t)d->performed,
    };
    return tuple_of(values, sizeof values / sizeof *values);
}

/* What was received and not read: what it is by now, what it was before, and what has come. */
static PyObject *unread(const connection_t *c) {
    PyObject *list = listed(c, &c->received, as_received), *arrived = list ? listed(c, &c->arrived, as_received) : NULL;
    PyObject *backlog = arrived ? PyList_GetSlice(c->backlog, c->backlog_at, PyList_GET_SIZE(c->backlog)) : NULL;
    Py_ssize_t count = list ? PyList_GET_SIZE(list) : 0;
    if (!backlog || PyList_SetSlice(list, count, count, backlog) < 0 ||
        PyList_SetSlice(list, count + PyList_GET_SIZE(backlog), PY_SSIZE_T_MAX, arrived) < 0)
        Py_CLEAR(list);
    Py_XDECREF(backlog);
    Py_XDECREF(arrived);
    return list;
}

/* Its place, `core.dialogue_made.OfConnection`, and its messages. */
static PyObject *connection_now(int at) {
    const connection_t *c = &dialogue.connections[at];
    int64_t values[] = {
        c->received_up_to, c->received_bytes, c->delivered_bytes, c->read_offset, c->delivered_position,
        c->delivered_timestamp, c->delivered_digest, c->sent_digest, c->ack_told, c->acked, c->acked_in_view,
        c->generated, c->remote_watermark, c->heard_ns, c->said_ns, c->ack_due_ns, c->retransmit_ns,
        c->sends_decoded, c->read_decoded, c->members_timestamp, c->gone.first, c->gone.last, c->gone.bytes,
        c->gone.checksum,
    };
    return Py_BuildValue("iNNNNNNiN", at, tuple_of(values, sizeof values / sizeof *values),
                         unread(c), listed(c, &c->delivered, as_received),
                         marks_of(&c->delivered), known_of(&c->delivered), listed(c, &c->sent, as_sent),
                         c->partial.count, fragments_now(&c->partial));
}

static PyObject *connections_now(void) {
    PyObject *list = PyList_New(0);
    for (int at = 0; list && at < dialogue.connection_count; at++)
        if (dialogue.connections[at].used && add(list, connection_now(at)) < 0)
            Py_CLEAR(list);
    return list;
}

/* Place, base, what is not reflected, watermark, commit, bytes, and which datagrams were taken. */
static PyObject *remotes_now(void) {
    PyObject *list = PyList_New(0);
    for (int at = 0; list && at < dialogue.remote_count; at++) {
        const remote_t *r = &dialogue.remotes[at];
        if (r->used && add(list, Py_BuildValue("iLLLLNN", at, (long long)r->base, (long long)r->unreflected,
                                               (long long)r->watermark, (long long)r->committed,
                                               as_bytes(r->held.data, r->held.size), runs_in(&r->numbers))) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static int add_count(PyObject *list, int kind, const count_of *count) {
    if (count->performed == count->performed_before && count->coded == count->coded_before)
        return 0;
    return add(list, Py_BuildValue("iLLL", kind, (long long)count->identifier, (long long)count->performed,
                                   (long long)count->coded));
}

/* Of counted entries: kind, identifier, count, and what the next one is coded against. */
static PyObject *counts_now(void) {
    PyObject *list = PyList_New(0);
    int failed = !list;
    for (int at = 0; !failed && at < GENERALS; at++)
        failed = add_count(list, GENERAL, &dialogue.generals[at]) < 0;
    for (int at = 0; !failed && at < dialogue.thread_count; at++)
        failed = add_count(list, GENERAL, &dialogue.threads[at].selects) < 0;
    for (int at = 0; !failed && at < dialogue.connection_count; at++)
        failed = add_count(list, SOCKET, &dialogue.connections[at].nothings) < 0;
    if (failed)
        Py_CLEAR(list);
    return list;
}

/* What was postponed came before what ended it. */
static PyObject *all_foreign(void) {
    return PySequence_InPlaceConcat(dialogue.postponed, dialogue.foreign);
}

/* In the order of `core.dialogue_made.Made`. */
PyObject *account(void) {
    const dialogue_t *d = &dialogue;
    size_t begun = d->live ? (size_t)(d->order_begun - d->order_base) : 0;
    seal_births();
    if (note_all_calls() < 0)
        return NULL;
    return Py_BuildValue("nNNNNNNnOLOONONNN", (Py_ssize_t)(d->sealed_count + d->called_count), numbers_now(), connections_now(), remotes_now(),
                         counts_now(), as_bytes(d->orders.data + begun, d->orders.size - begun), all_foreign(),
                         (Py_ssize_t)d->births_placed, d->born, (long long)d->births_digest, d->frames, d->readings, witnessed(),
                         d->selected, threads_now(), fellow_now(), beating_now());
}
