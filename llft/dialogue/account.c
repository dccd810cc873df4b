/* What is told of a dialogue when it is taken back, and the lists that it keeps until then. */

#include "dialogue.h"

#include <string.h>

enum { BYTES_TAG = 6, INT_TAG = 5 }; /* of the birth log */

static void out_of_memory(void) { Py_FatalError("a dialogue has no memory for what was said already"); }

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
    dialogue.called[dialogue.called_count++] = *call;
}

static void note_birth(uint8_t tag, int64_t kind, uint64_t number) {
    put_uvarint(&dialogue.births, (uint64_t)dialogue.thread);
    *grow(&dialogue.births, 1) = tag;
    *grow(&dialogue.births, 1) = (uint8_t)kind;
    put_uvarint(&dialogue.births, number);
}

void note_birth_of_bytes(PyObject *data) {
    note_birth(BYTES_TAG, dialogue.receive_kind, (uint64_t)PyBytes_GET_SIZE(data));
    put_bytes(&dialogue.births, PyBytes_AS_STRING(data), (size_t)PyBytes_GET_SIZE(data));
}

void note_birth_of_number(int64_t kind, int64_t number) { note_birth(INT_TAG, kind, zigzag(number)); }

/* -- when it is over --------------------------------------------------------------------------------- */

static PyObject *listed(const messages_t *messages) {
    PyObject *list = PyList_New((Py_ssize_t)messages->count);
    for (size_t at = 0; list && at < messages->count; at++) {
        const message_t *message = &messages->items[messages->first + at];
        PyObject *one = Py_BuildValue("LLOLkL", (long long)message->position, (long long)message->timestamp,
                                      message->payload, (long long)message->order_end,
                                      (unsigned long)message->digest, (long long)message->mark);
        if (!one)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)at, one);
    }
    return list;
}

static PyObject *numbers_taken(void) {
    size_t count = dialogue.numbers.size / sizeof(uint64_t);
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t at = 0; list && at < count; at++) {
        uint64_t number;
        memcpy(&number, dialogue.numbers.data + at * sizeof number, sizeof number);
        PyObject *one = PyLong_FromUnsignedLongLong(number);
        if (!one)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)at, one);
    }
    return list;
}

static int add(PyObject *rows, PyObject *row) {
    int failed = !row || PyList_Append(rows, row) < 0;
    Py_XDECREF(row);
    return failed ? -1 : 0;
}

/* How many calls from this one on are readings of one clock. */
size_t readings_from(size_t at) {
    const call_t *first = &dialogue.called[at];
    size_t count = 0;
    while (at + count < dialogue.called_count && first[count].kind == READING &&
           first[count].clock_id == first->clock_id)
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

static PyObject *all_readings(void) {
    PyObject *list = PyList_New(0);
    for (size_t at = 0, count; list && at < dialogue.called_count; at += count ? count : 1) {
        count = readings_from(at);
        if (count && add(list, Py_BuildValue("iN", dialogue.called[at].clock_id, readings(at, count))) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* For a witness of what the program called: kinds as the birth log has them, and the limit or the clock. */
static PyObject *witnessed(void) {
    PyObject *list = PyList_New(0);
    for (size_t at = 0; list && dialogue.witnessed && at < dialogue.called_count; at++) {
        const call_t *call = &dialogue.called[at];
        int64_t kind = call->kind == HEARD  ? dialogue.receive_kind
                       : call->kind == SAID ? dialogue.send_kind
                                            : dialogue.clock_kind;
        int64_t detail = call->kind == HEARD ? call->limit : call->clock_id;
        if (add(list, Py_BuildValue("LL", (long long)kind, (long long)detail)) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *as_bytes(const uint8_t *data, size_t size) {
    return PyBytes_FromStringAndSize(size ? (const char *)data : "", (Py_ssize_t)size);
}

/* In the order of `core.dialogue.Numbers`. */
static PyObject *numbers_now(void) {
    const dialogue_t *d = &dialogue;
    int64_t own = d->live ? d->unreflected : d->order_base + (int64_t)d->performed;
    int64_t values[] = {
        d->last_ns, d->calls, d->pick, d->count,
        d->context_pick, d->context_thread, d->context_fd, d->context_timestamp,
        d->context_clock_id, d->clocks[0].local, d->clocks[1].local, d->clocks[2].local,
        d->clocks[0].coded, d->clocks[1].coded, d->clocks[2].coded,
        own, d->order_committed, d->clock,
        d->received_up_to, d->received_bytes, d->delivered_bytes, d->read_offset,
        d->delivered_position, d->delivered_timestamp, d->delivered_digest,
        d->sent_digest, d->ack_told, d->acked, d->acked_in_view, d->generated, d->remote_watermark,
        d->heard_ns, d->said_ns, d->ack_due_ns, d->retransmit_ns,
        d->held_base, d->held_unreflected, d->held_watermark, d->held_committed,
        (int64_t)d->ahead_at, d->sends_decoded, (int64_t)d->performed,
    };
    Py_ssize_t count = sizeof values / sizeof *values;
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

/* What was called how often, numbers, messages, order information, what the network is told, the birth log, the
 * journal. */
PyObject *account(void) {
    const dialogue_t *d = &dialogue;
    size_t begun = d->live ? (size_t)(d->order_begun - d->order_base) : 0;
    return Py_BuildValue("nNNNNNNNONNNN", (Py_ssize_t)d->called_count, numbers_now(), listed(&d->received),
                         listed(&d->delivered), listed(&d->sent),
                         as_bytes(d->orders.data + begun, d->orders.size - begun),
                         as_bytes(d->held.data, d->held.size), numbers_taken(), d->foreign,
                         as_bytes(d->births.data, d->births.size), journal_frame(), all_readings(),
                         witnessed());
}
