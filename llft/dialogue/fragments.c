/* A message that comes in several datagrams (D-12), put together as they come.
 *
 * Law: fragments are taken in their order, and none but the next one: whatever else comes is the core's, with
 * those that were taken. What a peer says of a message takes no memory that its bytes do not: the room for all of
 * it follows from what the first ones bring, and has a bound. */

#include "dialogue.h"

#include <string.h>

#include "../wire/crc32.h"

enum { FRAGMENTS_MAX = 2048 };

static size_t taken_count(const partial_t *partial) { return partial->ends.size / sizeof(size_t); }

bool follows(const partial_t *partial, int index, int count, size_t size) {
    if (count < 2 || count > FRAGMENTS_MAX || index >= count || partial->size + size > FRAGMENTED_MAX)
        return false;
    return partial->payload ? count == partial->count && (size_t)index == taken_count(partial) : index == 0;
}

/* For it and as many like it as are to come: as a rule that is what the message needs, or little more. */
static bool make_room(partial_t *partial, int count, size_t size) {
    size_t room = partial->payload ? (size_t)PyBytes_GET_SIZE(partial->payload) : 0;
    if (partial->size + size <= room)
        return true;
    room = partial->size + size * ((size_t)count - taken_count(partial));
    if (room > FRAGMENTED_MAX)
        room = FRAGMENTED_MAX;
    PyObject *payload = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)room);
    if (!payload) {
        PyErr_Clear();
        return false;
    }
    if (partial->payload)
        memcpy(PyBytes_AS_STRING(payload), PyBytes_AS_STRING(partial->payload), partial->size);
    Py_XSETREF(partial->payload, payload);
    return true;
}

bool add_fragment(partial_t *partial, int count, const part_t *part, message_t *message) {
    if (!make_room(partial, count, part->size))
        return false;
    if (!partial->size)
        *partial = (partial_t){.payload = partial->payload, .ends = partial->ends, .has_checksum = true};
    memcpy(PyBytes_AS_STRING(partial->payload) + partial->size, part->data, part->size);
    partial->size += part->size;
    partial->count = count;
    partial->has_checksum &= part->has_checksum;
    if (partial->has_checksum)
        partial->checksum = crc32_joined(partial->checksum, part->checksum, part->size);
    put_bytes(&partial->ends, &partial->size, sizeof partial->size);
    if (taken_count(partial) < (size_t)count)
        return true;
    PyObject *whole = partial->payload;
    partial->payload = NULL;
    if (PyBytes_GET_SIZE(whole) != (Py_ssize_t)partial->size && _PyBytes_Resize(&whole, (Py_ssize_t)partial->size) < 0)
        Py_FatalError("no memory for less of it");
    message->payload = whole;
    message->has_checksum = partial->has_checksum;
    message->checksum = partial->checksum;
    clear_partial(partial);
    return true;
}

void clear_partial(partial_t *partial) {
    Py_CLEAR(partial->payload);
    partial->size = partial->ends.size = 0;
    partial->count = 0;
}

int read_fragments(partial_t *partial, int count, PyObject *fragments) {
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(fragments); at++) {
        PyObject *one = PyList_GET_ITEM(fragments, at);
        message_t whole = {0};
        if (!PyBytes_Check(one)) {
            PyErr_SetString(PyExc_TypeError, "a fragment is bytes");
            return -1;
        }
        size_t size = (size_t)PyBytes_GET_SIZE(one);
        if (!follows(partial, (int)at, count, size)) {
            PyErr_SetString(PyExc_ValueError, "too much of a message");
            return -1;
        }
        part_t part = {.data = (const uint8_t *)PyBytes_AS_STRING(one), .size = size};
        if (!add_fragment(partial, count, &part, &whole) || whole.payload) {
            Py_XDECREF(whole.payload);
            PyErr_SetString(PyExc_ValueError, "too many fragments");
            return -1;
        }
    }
    return 0;
}

PyObject *fragments_now(const partial_t *partial) {
    PyObject *list = PyList_New((Py_ssize_t)taken_count(partial));
    size_t start = 0, end;
    for (size_t at = 0; list && at < taken_count(partial); at++, start = end) {
        memcpy(&end, partial->ends.data + at * sizeof end, sizeof end);
        PyObject *one = PyBytes_FromStringAndSize(PyBytes_AS_STRING(partial->payload) + start, (Py_ssize_t)(end - start));
        if (!one)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)at, one);
    }
    return list;
}
