/* What the birth log gets of a dialogue: what is small in one piece, what is large as it is.
 *
 * When that has become much it is copied into the log's own blocks, which are lent for it, and so the memory of what
 * was heard is used again. Memory that is touched for the first time takes its time, and to whom a process is silent
 * for milliseconds deadlines come: so it is a part of it before each wait, until none is left. The log is told how
 * much is in its blocks when the dialogue is taken back; until then nobody looks at it.
 *
 * Law: all of it is in the order in which it came: what is not in the blocks follows what is. */

#include "dialogue.h"

#include <string.h>

#include "../wire/crc32.h"

enum {
    INT_TAG = 5, /* of the birth log */
    BYTES_TAG = 6,
    TUPLE_TAG = 7,
    PLACED_FROM = 1 << 22, /* bytes, */
    PLACED_AT_ONCE = 1 << 20,
    BIRTHS_MAX = 1 << 23, /* and if there is room for them; else it ends sooner */
};

/* -- noted ------------------------------------------------------------------------------------------- */

static void note_birth(uint8_t tag, int64_t kind, uint64_t number) {
    if (dialogue.is_relay)
        return;
    put_uvarint(&dialogue.births, (uint64_t)dialogue.thread);
    *grow(&dialogue.births, 1) = tag;
    *grow(&dialogue.births, 1) = (uint8_t)kind;
    put_uvarint(&dialogue.births, number);
}

void note_birth_of_bytes(int64_t kind, PyObject *data) {
    note_birth(BYTES_TAG, kind, (uint64_t)PyBytes_GET_SIZE(data));
    put_bytes(&dialogue.births, PyBytes_AS_STRING(data), (size_t)PyBytes_GET_SIZE(data));
}

static void add_births(PyObject *data, uint32_t checksum) {
    size_t size = (size_t)PyBytes_GET_SIZE(data);
    if (PyList_Append(dialogue.born, data) < 0)
        out_of_memory();
    dialogue.births_bytes += size;
    dialogue.births_digest = crc32_joined((uint32_t)dialogue.births_digest, checksum, size);
}

/* What was copied so far is told of in a piece of its own. */
void seal_births(void) {
    bytes_t *births = &dialogue.births;
    if (!births->size)
        return;
    PyObject *piece = PyBytes_FromStringAndSize((const char *)births->data, (Py_ssize_t)births->size);
    if (!piece)
        out_of_memory();
    add_births(piece, crc32_of(births->data, births->size));
    Py_DECREF(piece);
    births->size = 0;
}

void note_birth_of_known(int64_t kind, PyObject *data, uint32_t checksum) {
    if (dialogue.is_relay)
        return;
    if (PyBytes_GET_SIZE(data) < LARGE_BYTES) {
        note_birth_of_bytes(kind, data);
        return;
    }
    note_birth(BYTES_TAG, kind, (uint64_t)PyBytes_GET_SIZE(data));
    seal_births();
    add_births(data, checksum);
}

void note_birth_of_number(int64_t kind, int64_t number) { note_birth(INT_TAG, kind, zigzag(number)); }

void note_birth_of_fds(const int64_t *fds, Py_ssize_t count) {
    note_birth(TUPLE_TAG, dialogue.select_kind, (uint64_t)count);
    for (Py_ssize_t at = 0; at < count; at++)
        put_uvarint(&dialogue.births, zigzag(fds[at]));
}

void note_birth_of_nothing(void) {
    put_uvarint(&dialogue.births, (uint64_t)dialogue.thread);
    put_bytes(&dialogue.births, dialogue.nothing.data, dialogue.nothing.size);
}

/* -- placed ------------------------------------------------------------------------------------------ */

int read_blocks(PyObject *blocks) {
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(blocks); at++) {
        if (dialogue.block_count == BLOCKS_MAX) {
            PyErr_SetString(PyExc_ValueError, "too many blocks");
            return -1;
        }
        Py_buffer *block = &dialogue.blocks[dialogue.block_count];
        if (PyObject_GetBuffer(PyList_GET_ITEM(blocks, at), block, PyBUF_WRITABLE) < 0)
            return -1;
        dialogue.block_count++;
        dialogue.births_room += (size_t)block->len;
    }
    return 0;
}

void forget_blocks(void) {
    while (dialogue.block_count)
        PyBuffer_Release(&dialogue.blocks[--dialogue.block_count]);
    dialogue.block_at = 0;
    dialogue.block_used = dialogue.births_room = dialogue.births_placed = 0;
    dialogue.is_placing = false;
}

/* There is room for it. */
static void place(const char *data, size_t size) {
    dialogue.births_room -= size;
    dialogue.births_placed += size;
    while (size) {
        const Py_buffer *block = &dialogue.blocks[dialogue.block_at];
        size_t left = (size_t)block->len - dialogue.block_used, part = left < size ? left : size;
        memcpy((char *)block->buf + dialogue.block_used, data, part);
        dialogue.block_used += part;
        data += part;
        size -= part;
        if (part == left) {
            dialogue.block_at++;
            dialogue.block_used = 0;
        }
    }
}

bool place_births(void) {
    dialogue.is_placing |= dialogue.births_bytes >= PLACED_FROM;
    if (!dialogue.is_placing)
        return false;
    Py_ssize_t at = 0, count = PyList_GET_SIZE(dialogue.born);
    size_t done = 0;
    for (; at < count && done < PLACED_AT_ONCE; at++) {
        PyObject *piece = PyList_GET_ITEM(dialogue.born, at);
        size_t size = (size_t)PyBytes_GET_SIZE(piece);
        if (size > dialogue.births_room) {
            dialogue.births_room = 0; /* nor for what follows */
            break;
        }
        place(PyBytes_AS_STRING(piece), size);
        done += size;
    }
    dialogue.births_bytes -= done;
    dialogue.is_placing = done && at < count;
    if (PyList_SetSlice(dialogue.born, 0, at, NULL) < 0)
        out_of_memory();
    return done > 0;
}

bool has_room_for_births(void) {
    return dialogue.births_bytes + dialogue.births.size < (dialogue.births_room ? BIRTHS_MAX : PLACED_FROM);
}
