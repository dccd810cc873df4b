/* What a dialogue did, as a packed frame of the journal: `llft/journal/frame.py` has the format, and
 * `journal/packing.c` makes the frames of all else.
 *
 * Here there is one connection, and the words are all known; so nothing has to be looked up. */

#include "dialogue.h"

#include <string.h>

#include "../wire/crc32.h"

enum { ROW_TIME, ROW_WORD, ROW_CONNECTION, ROW_OPERATED, ROW_DELIVERED, ROW_SENT, ROW_READINGS = 9 };
enum { WORD_READ = 2, WORD_SEND = 3, WORD_WAKE = 6 };
enum { HEAD_BYTES = 8, START_FIRST = 0xF7, START_SECOND = 0x9C, PLACES = 4 };

static struct {
    bytes_t out;
    int64_t time_ns, order, count;
    int64_t read[PLACES], send[PLACES], wake[PLACES], delivered[4], sent[5], readings[4];
} frame;

static void put_number(int64_t number) { put_uvarint(&frame.out, zigzag(number)); }

static void put_change(int64_t number, int64_t *last) {
    put_number((int64_t)((uint64_t)number - (uint64_t)*last));
    *last = number;
}

static void begin_row(int64_t time_ns, uint8_t kind) {
    if (time_ns != frame.time_ns) {
        *grow(&frame.out, 1) = ROW_TIME;
        put_change(time_ns, &frame.time_ns);
    }
    *grow(&frame.out, 1) = kind;
}

static void put_operated(int64_t time_ns, int word, int64_t number, const int64_t *fields, int count, int64_t *last) {
    begin_row(time_ns, ROW_OPERATED);
    put_uvarint(&frame.out, (uint64_t)word);
    put_number(number - frame.order - 1);
    frame.order = number;
    for (int at = 0; at < count; at++)
        put_change(fields[at], last + at);
    frame.count++;
}

static void put_fields(int64_t time_ns, uint8_t kind, const int64_t *fields, int count, int64_t *last) {
    begin_row(time_ns, kind);
    put_uvarint(&frame.out, 0); /* the connection */
    for (int at = 0; at < count; at++)
        put_change(fields[at], last + at);
    frame.count++;
}

static void put_heard(const call_t *call) {
    if (call->woken)
        put_operated(call->time_ns, WORD_WAKE, call->number - 1, (int64_t[]){call->pick - 1, dialogue.thread}, 2, frame.wake);
    put_fields(call->time_ns, ROW_DELIVERED, (int64_t[]){dialogue.fd, call->size, call->so_far, call->digest}, 4,
               frame.delivered);
    put_operated(call->time_ns, WORD_READ, call->number,
                 (int64_t[]){call->pick, dialogue.thread, dialogue.fd, call->size}, 4, frame.read);
}

static void put_said(const call_t *call) {
    put_fields(call->time_ns, ROW_SENT,
               (int64_t[]){dialogue.fd, call->position, call->timestamp, call->size, call->digest}, 5, frame.sent);
    put_number(call->number - frame.order);
    put_operated(call->time_ns, WORD_SEND, call->number,
                 (int64_t[]){call->pick, dialogue.thread, dialogue.fd, call->timestamp}, 4, frame.send);
}

static void put_readings(const call_t *call, size_t count) {
    int64_t fields[] = {call->pick, dialogue.thread, call->clock_id};
    begin_row(call->time_ns, ROW_READINGS);
    put_number(call->number - frame.order - 1);
    for (int at = 0; at < 3; at++)
        put_change(fields[at], frame.readings + at);
    put_uvarint(&frame.out, count);
    for (size_t at = 0; at < count; at++) {
        uint64_t more = zigzag((int64_t)((uint64_t)call[at].timestamp - (uint64_t)frame.readings[3]));
        frame.readings[3] = call[at].timestamp;
        *grow(&frame.out, 1) = (uint8_t)(more | 0x80); /* two bytes at least: a reading is two records */
        put_uvarint(&frame.out, more >> 7);
    }
    frame.order = call->number + (int64_t)count - 1;
    frame.count += 2 * (int64_t)count;
}

static void begin_frame(void) {
    memset(&frame.time_ns, 0, sizeof frame - offsetof(typeof(frame), time_ns));
    frame.out.size = 0;
    grow(&frame.out, HEAD_BYTES);
    *grow(&frame.out, 1) = START_FIRST;
    *grow(&frame.out, 1) = START_SECOND;
    for (int at = 0; at < WHO_NUMBERS; at++)
        put_number(dialogue.who[at]);
    frame.time_ns = dialogue.called[0].time_ns;
    put_number(frame.time_ns);
    *grow(&frame.out, 1) = ROW_CONNECTION;
    for (int at = 0; at < CONNECTION_NUMBERS; at++)
        put_number(dialogue.connection_id[at]);
}

PyObject *journal_frame(void) {
    if (!dialogue.journalling || !dialogue.called_count)
        return Py_BuildValue("yLL", "", 0LL, 0LL);
    begin_frame();
    for (size_t at = 0, count; at < dialogue.called_count; at += count) {
        const call_t *call = &dialogue.called[at];
        count = call->kind == READING ? readings_from(at) : 1;
        if (call->kind == READING)
            put_readings(call, count);
        else if (call->kind == SAID)
            put_said(call);
        else
            put_heard(call);
    }
    uint32_t head[] = {(uint32_t)(frame.out.size - HEAD_BYTES), 0};
    head[1] = crc32_of(frame.out.data + HEAD_BYTES, head[0]);
    memcpy(frame.out.data, head, sizeof head);
    return Py_BuildValue("y#LL", (char *)frame.out.data, (Py_ssize_t)frame.out.size, (long long)frame.count,
                         (long long)dialogue.called[0].time_ns);
}
