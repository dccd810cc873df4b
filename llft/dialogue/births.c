/* What the birth log gets of a dialogue: where the log itself will have it, in blocks that are lent for it, as far as
 * there is room. What is large is copied there while it is in the processor's caches, and the memory that it came in is
 * used again for what comes next; and a dialogue need not end for it.
 *
 * Memory that is touched for the first time takes more time than what is put there. So before a wait some of it is made
 * ready, where much is heard, at once for many messages. The log is told how much is in its blocks when the dialogue is
 * taken back; until then nobody looks at it.
 *
 * Law: all of it is in the order in which it came: what is not in the blocks follows what is. */

#include "dialogue.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "../wire/crc32.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum {
    INT_TAG = 5, /* of the birth log */
    BYTES_TAG = 6,
    TUPLE_TAG = 7,
    BIRTHS_MAX = 1 << 22,   /* bytes that are not in the blocks */
    SEALED_FROM = 1 << 16,  /* of what is small */
    READY_MESSAGES = 64, /* at once, for messages as large as the last one, */
    READY_MAX = 1 << 22, /* but not more bytes, */
    READY_AT_LEAST = 4,  /* when there is room for fewer */
    PAGE = 4096,
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

/* There is room for it. */
static void place(const char *data, size_t size) {
    dialogue.births_room -= size;
    dialogue.births_placed += size;
    dialogue.births_ready -= size < dialogue.births_ready ? size : dialogue.births_ready;
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

/* Once something had no room, nothing has that comes behind it. */
static bool has_room(size_t size) { return size <= dialogue.births_room && !PyList_GET_SIZE(dialogue.born); }

static void list(PyObject *piece) {
    if (!piece || PyList_Append(dialogue.born, piece) < 0)
        out_of_memory();
    dialogue.births_bytes += (size_t)PyBytes_GET_SIZE(piece);
}

static void count(uint32_t checksum, size_t size) {
    dialogue.births_digest = crc32_joined((uint32_t)dialogue.births_digest, checksum, size);
}

/* What was copied so far goes into the blocks, or is told of in a piece of its own. */
void seal_births(void) {
    bytes_t *births = &dialogue.births;
    if (!births->size)
        return;
    count(crc32_of(births->data, births->size), births->size);
    if (has_room(births->size)) {
        place((const char *)births->data, births->size);
    } else {
        PyObject *piece = PyBytes_FromStringAndSize((const char *)births->data, (Py_ssize_t)births->size);
        list(piece);
        Py_DECREF(piece);
    }
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
    size_t size = (size_t)PyBytes_GET_SIZE(data);
    count(checksum, size);
    if (has_room(size))
        place(PyBytes_AS_STRING(data), size);
    else
        list(data);
    dialogue.large_heard = size;
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

/* -- where it goes ----------------------------------------------------------------------------------- */

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
    dialogue.block_used = dialogue.births_room = dialogue.births_placed = dialogue.births_ready = 0;
    dialogue.large_heard = 0;
}

/* A kernel that cannot do so does it when the memory is used. */
static void touch(const char *data, size_t size) {
    uintptr_t begin = (uintptr_t)data & ~(uintptr_t)(PAGE - 1), end = ((uintptr_t)data + size) & ~(uintptr_t)(PAGE - 1);
    if (end > begin)
        (void)madvise((void *)begin, end - begin, MADV_POPULATE_WRITE);
}

static size_t least(size_t one, size_t other) { return one < other ? one : other; }

static void make_ready(size_t most) {
    size_t used = dialogue.block_used, done = 0;
    for (int at = dialogue.block_at; done < most; at++, used = 0) {
        size_t part = least((size_t)dialogue.blocks[at].len - used, most - done);
        touch((const char *)dialogue.blocks[at].buf + used, part);
        done += part;
    }
    dialogue.births_ready = done;
}

bool keep_births(void) {
    if (dialogue.births.size >= SEALED_FROM && has_room(dialogue.births.size))
        seal_births();
    size_t wanted = least(READY_MESSAGES * dialogue.large_heard, READY_MAX);
    if (dialogue.births_ready >= least(READY_AT_LEAST * dialogue.large_heard, wanted) || PyList_GET_SIZE(dialogue.born))
        return false;
    make_ready(least(wanted, dialogue.births_room));
    dialogue.large_heard = 0;
    return true;
}

bool has_room_for_births(void) { return dialogue.births_bytes + dialogue.births.size < BIRTHS_MAX; }
