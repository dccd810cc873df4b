/* What a dialogue did, as packed frames of the journal: `llft/journal/frame.py` has the format, and
 * `journal/packing.c` makes the frames of all else.
 *
 * Each frame can be read alone: it names the connections and the words that it has to do with. */

#include "dialogue.h"

#include <string.h>

#include "../wire/crc32.h"

enum {
    ROW_TIME,
    ROW_WORD,
    ROW_CONNECTION,
    ROW_OPERATED,
    ROW_DELIVERED,
    ROW_SENT,
    ROW_READINGS = 9,
};
enum { WORD_READ = 2, WORD_SEND = 3, WORD_WAKE = 6, WORDS_KNOWN = 8 };
enum {
    HEAD_BYTES = 8,
    START_FIRST = 0xF7,
    START_SECOND = 0x9C,
    PLACES_IN_WORD = 4,
    CALLS_MAX = 512,      /* of a frame, which is lost as a whole where it is damaged */
    FULL_BYTES = 1 << 15, /* a frame that has so many takes no more calls; none has half as many again */
    WORDS_MAX = 64,       /* that are known again; others are said anew */
    WHOLE_DATA = 24,      /* as `wire.order_entries` describes data */
    DATA_START = 16,
    DATA_END = 8,
};

typedef struct {
    int64_t last[PLACES_IN_WORD];
    int kind, index;
    size_t data_at, data_size;
} word_t;

typedef struct {
    int64_t delivered[4], sent[5];
} rows_t;

static struct {
    bytes_t out;
    int64_t time_ns, order, count;
    int64_t read[PLACES_IN_WORD], send[PLACES_IN_WORD], wake[PLACES_IN_WORD], readings[4];
    int connections, said_count, word_count; /* the second: of words; the third: of those that may be known again */
    word_t words[WORDS_MAX], drawn;
    rows_t rows[CONNECTIONS_MAX];
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

/* -- what frames name -------------------------------------------------------------------------------- */

static int index_of(connection_t *c, int64_t time_ns) {
    if (c->journal_index < 0) {
        c->journal_index = frame.connections++;
        begin_row(time_ns, ROW_CONNECTION);
        for (int at = 0; at < CONNECTION_NUMBERS; at++)
            put_number(c->id[at]);
    }
    return c->journal_index;
}

static void put_hex(bytes_t *out, const uint8_t *data, size_t size) {
    static const char digits[] = "0123456789abcdef";
    for (size_t at = 0; at < size; at++) {
        *grow(out, 1) = (uint8_t)digits[data[at] >> 4];
        *grow(out, 1) = (uint8_t)digits[data[at] & 15];
    }
}

static void put_text(bytes_t *out, const char *text) { put_bytes(out, text, strlen(text)); }

/* As `wire.order_entries.counted_template` has it. */
static void put_template(bytes_t *out, bool on_socket, const uint8_t *data, size_t size) {
    char behind[24];
    put_text(out, on_socket ? "socket pick=%d thread=%d fd=%d count=%d data="
                            : "general pick=%d thread=%d operation=%d count=%d data=");
    if (size <= WHOLE_DATA) {
        put_hex(out, data, size);
        if (!size)
            put_text(out, "-");
        return;
    }
    put_hex(out, data, DATA_START);
    put_text(out, "..");
    put_hex(out, data + size - DATA_END, DATA_END);
    snprintf(behind, sizeof behind, "(%zu)", size);
    put_text(out, behind);
}

static bool is_on_socket(const call_t *call) { return call->kind == SELECTED_ON_SOCKET || call->kind == NOTHING_THERE; }

static word_t *known_word(const call_t *call, const uint8_t *data) {
    for (int at = 0; at < frame.word_count && at < WORDS_MAX; at++) {
        word_t *known = &frame.words[at];
        if (is_on_socket(call) == known->kind && known->data_size == call->data_size &&
            !memcmp(dialogue.counted.data + known->data_at, data, call->data_size))
            return known;
    }
    return NULL;
}

/* What was drawn hardly comes again: to look for it would take longer than to say it, and it would take the places
 * of what does come again. */
static word_t *word_of(const call_t *call) {
    static bytes_t text;
    const uint8_t *data = dialogue.counted.data + call->data_at;
    bool is_drawn = call->kind == DRAWN;
    word_t *word = is_drawn ? NULL : known_word(call, data);
    if (word)
        return word;
    word = is_drawn ? &frame.drawn : &frame.words[frame.word_count++ % WORDS_MAX];
    *word = (word_t){.kind = is_on_socket(call), .index = WORDS_KNOWN + frame.said_count++, .data_at = call->data_at,
                     .data_size = call->data_size};
    text.size = 0;
    put_template(&text, is_on_socket(call), data, call->data_size);
    begin_row(call->time_ns, ROW_WORD);
    put_uvarint(&frame.out, text.size);
    put_bytes(&frame.out, text.data, text.size);
    return word;
}

/* -- calls ------------------------------------------------------------------------------------------- */

static void put_wake(const call_t *call) {
    put_operated(call->time_ns, WORD_WAKE, call->number - 1, (int64_t[]){call->pick - 1, call->thread}, 2, frame.wake);
}

static void put_fields(int64_t time_ns, uint8_t kind, int index, const int64_t *fields, int count, int64_t *last) {
    begin_row(time_ns, kind);
    put_uvarint(&frame.out, (uint64_t)index);
    for (int at = 0; at < count; at++)
        put_change(fields[at], last + at);
    frame.count++;
}

static void put_heard(const call_t *call) {
    connection_t *c = &dialogue.connections[call->connection];
    int index = index_of(c, call->time_ns);
    put_fields(call->time_ns, ROW_DELIVERED, index, (int64_t[]){c->fd, call->size, call->so_far, call->digest}, 4,
               frame.rows[call->connection].delivered);
    put_operated(call->time_ns, WORD_READ, call->number, (int64_t[]){call->pick, call->thread, c->fd, call->size}, 4,
                 frame.read);
}

static void put_said(const call_t *call) {
    connection_t *c = &dialogue.connections[call->connection];
    int index = index_of(c, call->time_ns);
    put_fields(call->time_ns, ROW_SENT, index,
               (int64_t[]){c->fd, call->position, call->timestamp, call->size, call->digest}, 5,
               frame.rows[call->connection].sent);
    put_number(call->number - frame.order);
    put_operated(call->time_ns, WORD_SEND, call->number,
                 (int64_t[]){call->pick, call->thread, c->fd, call->timestamp}, 4, frame.send);
}

static void put_counted(const call_t *call) {
    word_t *word = word_of(call);
    put_operated(call->time_ns, word->index, call->number,
                 (int64_t[]){call->pick, call->thread, call->position, call->limit}, 4, word->last);
}

static void put_readings(const call_t *call, size_t count) {
    int64_t fields[] = {call->pick, call->thread, call->clock_id};
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

static void put_call(const call_t *call) {
    if (call->kind == WOKE) {
        put_operated(call->time_ns, WORD_WAKE, call->number, (int64_t[]){call->pick, call->thread}, 2, frame.wake);
        return;
    }
    if (call->woken)
        put_wake(call);
    if (call->kind == HEARD)
        put_heard(call);
    else if (call->kind == SAID)
        put_said(call);
    else
        put_counted(call);
}

/* -- frames ------------------------------------------------------------------------------------------ */

static void begin_frame(int64_t first_ns) {
    memset(&frame.time_ns, 0, sizeof frame - offsetof(typeof(frame), time_ns));
    frame.out.size = 0;
    grow(&frame.out, HEAD_BYTES);
    *grow(&frame.out, 1) = START_FIRST;
    *grow(&frame.out, 1) = START_SECOND;
    for (int at = 0; at < WHO_NUMBERS; at++)
        put_number(dialogue.who[at]);
    frame.time_ns = first_ns;
    put_number(frame.time_ns);
    for (int at = 0; at < dialogue.connection_count; at++)
        dialogue.connections[at].journal_index = -1;
}

static PyObject *end_frame(int64_t first_ns) {
    uint32_t head[] = {(uint32_t)(frame.out.size - HEAD_BYTES), 0};
    head[1] = crc32_of(frame.out.data + HEAD_BYTES, head[0]);
    memcpy(frame.out.data, head, sizeof head);
    return Py_BuildValue("y#LL", (char *)frame.out.data, (Py_ssize_t)frame.out.size, (long long)frame.count,
                         (long long)first_ns);
}

/* As many calls from this one on as go into a frame; where the next one begins. */
static size_t put_calls(size_t at) {
    size_t last = at + CALLS_MAX < dialogue.called_count ? at + CALLS_MAX : dialogue.called_count;
    while (at < last && frame.out.size < FULL_BYTES) {
        const call_t *call = &dialogue.called[at];
        size_t count = call->kind == READING ? readings_from(at) : 1;
        if (count > last - at)
            count = last - at;
        if (call->kind == READING)
            put_readings(call, count);
        else
            put_call(call);
        at += count;
    }
    return at;
}

int journal_frames(PyObject *frames) {
    int64_t begun_ns = monotonic_ns();
    int failed = 0;
    for (size_t at = 0; !failed && dialogue.journalling && at < dialogue.called_count;) {
        int64_t first_ns = dialogue.called[at].time_ns;
        begin_frame(first_ns);
        at = put_calls(at);
        PyObject *made = end_frame(first_ns);
        failed = !made || PyList_Append(frames, made) < 0;
        Py_XDECREF(made);
    }
    tally.journal_ns += (unsigned long long)(monotonic_ns() - begun_ns);
    return failed ? -1 : 0;
}
