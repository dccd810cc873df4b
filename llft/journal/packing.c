/* Packed frames of the journal, to and fro: what `pack_rows` and `unpack_rows` do, many times as fast.
 *
 * `journal.frame` has the format. Laws:
 *
 * 1. The bytes are those of `pack_rows.pack_in_python`, the records those of `unpack_rows.unpack_in_python`, or
 *    there are none: what is not as usual is left to Python, with all that it came with.
 * 2. Only the compiled lane has this, and without it the journal is the same.
 * 3. What a frame is made of is kept in fixed memory: the interpreter's lock guards it. A frame begins with none
 *    of what the last one knew, for a reader may meet it alone.
 * 4. Nothing is read behind a payload's end, and no memory taken on the word of a number in it.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#include "../wire/crc32.h"

enum { TIME, WORD, CONNECTION, OPERATED, DELIVERED, SENT, CLOCK_READ, COLLECTED, HEARTBEAT_ARRIVED, READINGS };

/* As in `journal.packed`. */
#define WORD_BYTES_MAX 256
#define PLACES_MAX 16
#define ROWS_MAX 1024
#define FULL_BYTES (1 << 15)
#define VALUES_MAX 1024
#define MAX_PACKED_BYTES (1 << 16)
#define WORDS_KNOWN 8
#define LOCK_PLACES 5 /* numbers of an entry of a mutex, and which of them differs */
#define LOCK_COUNT 3
#define START_FIRST 0xf7
#define START_SECOND 0x9c

#define HEAD_BYTES 8 /* of a frame: length and checksum */
#define NUMBER_BYTES 10
#define ROW_BYTES (64 + WORD_BYTES_MAX + (8 + PLACES_MAX + VALUES_MAX) * NUMBER_BYTES) /* no row is longer */
#define SLOTS 4096 /* of a table for what a frame names: four times as many as it has rows */
#define WORDS_MAX (ROWS_MAX + WORDS_KNOWN)
/* A reader meets what others have written: a word takes two bytes, a connection four. */
#define READ_MAX (MAX_PACKED_BYTES / 2)

enum { T_OPERATED, T_DELIVERED, T_SENT, T_CLOCK_READ, T_COLLECTED, T_HEARTBEAT, T_READINGS, T_LOCKS, T_STAMP, T_BIRTH, T_VIEW, T_CONNECTION, T_COUNT };
static PyTypeObject *types[T_COUNT];
static PyObject *known_words[WORDS_KNOWN];

/* ---- numbers --------------------------------------------------------------------------------------------- */

static inline uint64_t zigzag(int64_t number) {
    return (uint64_t)number << 1 ^ (uint64_t)(number >> 63);
}

static inline int64_t unzigzag(uint64_t count) {
    return (int64_t)(count >> 1 ^ (0 - (count & 1)));
}

static inline int64_t difference(int64_t of, int64_t from) {
    return (int64_t)((uint64_t)of - (uint64_t)from);
}

static inline int64_t sum(int64_t one, int64_t other) {
    return (int64_t)((uint64_t)one + (uint64_t)other);
}

static inline uint8_t *put_count(uint8_t *at, uint64_t count) {
    for (; count > 0x7f; count >>= 7)
        *at++ = (uint8_t)(count | 0x80);
    *at++ = (uint8_t)count;
    return at;
}

/* 0: it is no integer of 64 bits, which is Python's business. */
static inline int integer_of(PyObject *object, int64_t *value) {
    int overflow;
    if (!PyLong_CheckExact(object))
        return 0;
    *value = PyLong_AsLongLongAndOverflow(object, &overflow);
    return !overflow;
}

static int integers_of(PyObject *tuple, Py_ssize_t from, Py_ssize_t count, int64_t *values) {
    for (Py_ssize_t at = 0; at < count; at++)
        if (!integer_of(PyTuple_GET_ITEM(tuple, from + at), values + at))
            return 0;
    return 1;
}

/* ---- packing --------------------------------------------------------------------------------------------- */

struct word {
    PyObject *object; /* borrowed: of the strip, or known */
    int places;
    int64_t last[PLACES_MAX];
};

struct connection {
    int64_t id[3];
    int64_t delivered[4], sent[5], collected;
};

struct slot {
    uint64_t frame; /* of which this is; of others it is empty */
    uint32_t index;
};

static struct {
    uint8_t data[HEAD_BYTES + FULL_BYTES + 2 * ROW_BYTES];
    uint8_t *next;
    int begun;
    uint64_t number; /* one more with each frame */
    PyObject *who;   /* borrowed, of the strip */
    int64_t first_ns, time_ns, order;
    int rows;
    Py_ssize_t records;
    int word_count, connection_count;
    struct word words[WORDS_MAX];
    struct connection connections[ROWS_MAX];
    struct slot word_slots[SLOTS], connection_slots[SLOTS];
    PyObject *last_object; /* the connection met last, and its index */
    uint32_t last_index;
    int64_t clock_read[2], heartbeat[4], readings[4]; /* the fourth: the last value */
} frame;

static inline void put_number(int64_t number) {
    frame.next = put_count(frame.next, zigzag(number));
}

static inline void put_difference(int64_t number, int64_t *last) {
    put_number(difference(number, *last));
    *last = number;
}

static void begin_row(int64_t time_ns, int kind) {
    if (time_ns != frame.time_ns) {
        *frame.next++ = TIME;
        put_difference(time_ns, &frame.time_ns);
    }
    *frame.next++ = (uint8_t)kind;
    frame.records += kind > CONNECTION;
}

/* How many numbers a word asks for; -1: it is none. */
static int places_of(PyObject *word) {
    if (!PyUnicode_CheckExact(word) || !PyUnicode_IS_COMPACT_ASCII(word) || PyUnicode_GET_LENGTH(word) > WORD_BYTES_MAX)
        return -1;
    const char *at = (const char *)PyUnicode_1BYTE_DATA(word), *end = at + PyUnicode_GET_LENGTH(word);
    int places = 0;
    for (; at < end; at++) {
        if (*at < ' ' || *at > '~')
            return -1;
        if (*at == '%' && (at + 1 == end || at[1] != 'd' || ++places > PLACES_MAX))
            return -1;
    }
    return places;
}

static int add_word(PyObject *word, int places, uint32_t place) {
    struct word *added = frame.words + frame.word_count;
    added->object = word;
    added->places = places;
    memset(added->last, 0, sizeof(int64_t) * (size_t)places);
    frame.word_slots[place] = (struct slot){frame.number, (uint32_t)frame.word_count};
    return frame.word_count++;
}

static int is_same_word(PyObject *one, PyObject *other) {
    return one == other || (PyUnicode_GET_LENGTH(one) == PyUnicode_GET_LENGTH(other) &&
                            !memcmp(PyUnicode_1BYTE_DATA(one), PyUnicode_1BYTE_DATA(other), (size_t)PyUnicode_GET_LENGTH(one)));
}

/* Its index, or where it belongs: -1. Whether it is a word at all is known of those that are there. */
static int find_word(PyObject *word, uint32_t *place) {
    Py_hash_t hash = PyObject_Hash(word);
    for (*place = (uint32_t)hash % SLOTS; frame.word_slots[*place].frame == frame.number; *place = (*place + 1) % SLOTS) {
        uint32_t index = frame.word_slots[*place].index;
        if (is_same_word(frame.words[index].object, word))
            return (int)index;
    }
    return -1;
}

/* -1: for Python. A word that is new is not put yet: something behind it may be for Python. */
static int index_of_word(PyObject *word, uint32_t *place, int *places) {
    if (!PyUnicode_CheckExact(word) || !PyUnicode_IS_COMPACT_ASCII(word))
        return -1;
    int index = find_word(word, place);
    *places = index < 0 ? places_of(word) : frame.words[index].places;
    return *places < 0 ? -1 : index < 0 ? frame.word_count : index;
}

static void put_word(PyObject *word, int places, uint32_t place, int64_t time_ns) {
    size_t size = (size_t)PyUnicode_GET_LENGTH(word);
    add_word(word, places, place);
    begin_row(time_ns, WORD);
    frame.next = put_count(frame.next, size);
    memcpy(frame.next, PyUnicode_1BYTE_DATA(word), size);
    frame.next += size;
}

static struct connection *add_connection(const int64_t *id, uint32_t place, int64_t time_ns) {
    struct connection *added = frame.connections + frame.connection_count;
    memset(added, 0, sizeof *added);
    memcpy(added->id, id, sizeof added->id);
    frame.connection_slots[place] = (struct slot){frame.number, (uint32_t)frame.connection_count++};
    begin_row(time_ns, CONNECTION);
    for (int at = 0; at < 3; at++)
        put_number(id[at]);
    return added;
}

/* NULL: for Python. As a rule it is the very object that it was the last time. */
static struct connection *connection_of(PyObject *object, int64_t time_ns) {
    int64_t id[3];
    if (object == frame.last_object)
        return frame.connections + frame.last_index;
    if (!PyTuple_Check(object) || PyTuple_GET_SIZE(object) != 3 || !integers_of(object, 0, 3, id))
        return NULL;
    uint64_t hash = (uint64_t)id[2] * 0x9e3779b97f4a7c15u ^ (uint64_t)id[1] * 0xc2b2ae3d27d4eb4fu ^ (uint64_t)id[0] * 0x165667b19e3779f9u;
    uint32_t place = (uint32_t)(hash >> 40) % SLOTS;
    struct connection *found = NULL;
    for (; !found && frame.connection_slots[place].frame == frame.number; place = (place + 1) % SLOTS) {
        struct connection *met = frame.connections + frame.connection_slots[place].index;
        if (!memcmp(met->id, id, sizeof id))
            found = met;
    }
    if (!found)
        found = add_connection(id, place, time_ns);
    frame.last_object = object;
    frame.last_index = (uint32_t)(found - frame.connections);
    return found;
}

static inline void put_index(const struct connection *connection) {
    frame.next = put_count(frame.next, (uint64_t)(connection - frame.connections));
}

static void put_operated(int index, int places, int64_t number, const int64_t *numbers, int64_t time_ns) {
    begin_row(time_ns, OPERATED);
    frame.next = put_count(frame.next, (uint64_t)index);
    put_number(difference(number, sum(frame.order, 1)));
    frame.order = number;
    for (int at = 0; at < places; at++)
        put_difference(numbers[at], frame.words[index].last + at);
}

static int pack_operated(PyObject *row, int64_t time_ns) {
    int64_t number, numbers[PLACES_MAX];
    uint32_t place;
    int places, overflow;
    Py_ssize_t size = PyTuple_GET_SIZE(row);
    if ((size != 3 && size != 4) || !integer_of(PyTuple_GET_ITEM(row, 1), &number))
        return 0;
    PyObject *word = PyTuple_GET_ITEM(row, 2), *entry = size == 4 ? PyTuple_GET_ITEM(row, 3) : NULL;
    int index = index_of_word(word, &place, &places);
    if (index < 0 || (places && (!entry || !PyTuple_Check(entry) || PyTuple_GET_SIZE(entry) <= places)))
        return 0;
    for (int at = 0; at < places; at++) {
        PyObject *item = PyTuple_GET_ITEM(entry, at + 1);
        if (!PyLong_Check(item)) /* a truth is as good as a number */
            return 0;
        numbers[at] = PyLong_AsLongLongAndOverflow(item, &overflow);
        if (overflow)
            return 0;
    }
    if (index == frame.word_count)
        put_word(word, places, place, time_ns);
    put_operated(index, places, number, numbers, time_ns);
    return 1;
}

static int pack_delivered(PyObject *row, int64_t time_ns) {
    int64_t fields[4];
    if (PyTuple_GET_SIZE(row) != 6 || !integers_of(row, 2, 4, fields))
        return 0;
    struct connection *connection = connection_of(PyTuple_GET_ITEM(row, 1), time_ns);
    if (!connection)
        return 0;
    begin_row(time_ns, DELIVERED);
    put_index(connection);
    for (int at = 0; at < 4; at++)
        put_difference(fields[at], connection->delivered + at);
    return 1;
}

static int pack_sent(PyObject *row, int64_t time_ns) {
    int64_t fields[6];
    if (PyTuple_GET_SIZE(row) != 8 || !integers_of(row, 2, 6, fields))
        return 0;
    struct connection *connection = connection_of(PyTuple_GET_ITEM(row, 1), time_ns);
    if (!connection)
        return 0;
    begin_row(time_ns, SENT);
    put_index(connection);
    for (int at = 0; at < 5; at++)
        put_difference(fields[at], connection->sent + at);
    put_number(difference(fields[5], frame.order));
    return 1;
}

static int pack_clock_read(PyObject *row, int64_t time_ns) {
    int64_t fields[3];
    if (PyTuple_GET_SIZE(row) != 4 || !integers_of(row, 1, 3, fields))
        return 0;
    begin_row(time_ns, CLOCK_READ);
    for (int at = 0; at < 2; at++)
        put_difference(fields[at], frame.clock_read + at);
    put_number(difference(fields[2], frame.order));
    return 1;
}

static int pack_collected(PyObject *row, int64_t time_ns) {
    int64_t up_to;
    uint32_t place;
    int places;
    if (PyTuple_GET_SIZE(row) != 4 || !integer_of(PyTuple_GET_ITEM(row, 3), &up_to))
        return 0;
    PyObject *word = PyTuple_GET_ITEM(row, 2);
    int which = index_of_word(word, &place, &places);
    if (which < 0 || places)
        return 0;
    struct connection *connection = connection_of(PyTuple_GET_ITEM(row, 1), time_ns);
    if (!connection)
        return 0;
    if (which == frame.word_count)
        put_word(word, places, place, time_ns);
    begin_row(time_ns, COLLECTED);
    put_index(connection);
    frame.next = put_count(frame.next, (uint64_t)which);
    put_difference(up_to, &connection->collected);
    return 1;
}

static int pack_heartbeat(PyObject *row, int64_t time_ns) {
    int64_t fields[4];
    if (PyTuple_GET_SIZE(row) != 3)
        return 0;
    PyObject *sender = PyTuple_GET_ITEM(row, 1);
    if (!PyTuple_Check(sender) || PyTuple_GET_SIZE(sender) != 3 || !integers_of(sender, 0, 3, fields) ||
        !integer_of(PyTuple_GET_ITEM(row, 2), fields + 3))
        return 0;
    begin_row(time_ns, HEARTBEAT_ARRIVED);
    for (int at = 0; at < 4; at++)
        put_difference(fields[at], frame.heartbeat + at);
    return 1;
}

static int pack_readings(PyObject *row, int64_t time_ns) {
    int64_t fields[4], value;
    if (PyTuple_GET_SIZE(row) != 6 || !integers_of(row, 1, 4, fields) || !PyList_Check(PyTuple_GET_ITEM(row, 5)))
        return 0;
    PyObject *values = PyTuple_GET_ITEM(row, 5);
    Py_ssize_t count = PyList_GET_SIZE(values);
    if (count > VALUES_MAX || fields[0] > INT64_MAX - count)
        return 0;
    begin_row(time_ns, READINGS);
    put_number(difference(fields[0], sum(frame.order, 1)));
    for (int at = 0; at < 3; at++)
        put_difference(fields[at + 1], frame.readings + at);
    frame.next = put_count(frame.next, (uint64_t)count);
    for (Py_ssize_t at = 0; at < count; at++) {
        if (!integer_of(PyList_GET_ITEM(values, at), &value))
            return 0;
        uint64_t more = zigzag(difference(value, frame.readings[3]));
        frame.readings[3] = value;
        /* Two bytes at least, for a reading is two records: a frame has a byte for every record. */
        *frame.next++ = (uint8_t)(more | 0x80);
        frame.next = put_count(frame.next, more >> 7);
    }
    frame.order = fields[0] + count - 1;
    frame.records += 2 * count - 1;
    return 1;
}

static int pack_row(PyObject *row, int64_t time_ns) {
    PyTypeObject *kind = (PyTypeObject *)PyTuple_GET_ITEM(row, 0);
    frame.rows++;
    if (kind == types[T_OPERATED])
        return pack_operated(row, time_ns);
    if (kind == types[T_SENT])
        return pack_sent(row, time_ns);
    if (kind == types[T_DELIVERED])
        return pack_delivered(row, time_ns);
    if (kind == types[T_COLLECTED])
        return pack_collected(row, time_ns);
    if (kind == types[T_CLOCK_READ])
        return pack_clock_read(row, time_ns);
    if (kind == types[T_READINGS])
        return pack_readings(row, time_ns);
    return kind == types[T_HEARTBEAT] && pack_heartbeat(row, time_ns);
}

static int put_who(PyObject *who) {
    int64_t numbers[9];
    if (PyTuple_GET_SIZE(who) != 3)
        return 0;
    PyObject *birth = PyTuple_GET_ITEM(who, 1), *view = PyTuple_GET_ITEM(who, 2);
    if (!PyTuple_Check(birth) || PyTuple_GET_SIZE(birth) != 3 || !PyTuple_Check(view) || PyTuple_GET_SIZE(view) != 3)
        return 0;
    PyObject *primary = PyTuple_GET_ITEM(view, 2);
    if (!PyTuple_Check(primary) || PyTuple_GET_SIZE(primary) != 3 || !integers_of(who, 0, 1, numbers) ||
        !integers_of(birth, 0, 3, numbers + 1) || !integers_of(view, 0, 2, numbers + 4) || !integers_of(primary, 0, 3, numbers + 6))
        return 0;
    for (int at = 0; at < 9; at++)
        put_number(numbers[at]);
    return 1;
}

static int begin_frame(PyObject *who, int64_t time_ns) {
    frame.next = frame.data + HEAD_BYTES;
    *frame.next++ = START_FIRST;
    *frame.next++ = START_SECOND;
    frame.number++;
    frame.who = who;
    frame.first_ns = frame.time_ns = time_ns;
    frame.order = 0;
    frame.rows = 0;
    frame.records = 0;
    frame.word_count = frame.connection_count = 0;
    frame.last_object = NULL;
    memset(frame.clock_read, 0, sizeof frame.clock_read);
    memset(frame.heartbeat, 0, sizeof frame.heartbeat);
    memset(frame.readings, 0, sizeof frame.readings);
    for (int at = 0; at < WORDS_KNOWN; at++) {
        uint32_t place;
        find_word(known_words[at], &place);
        add_word(known_words[at], places_of(known_words[at]), place);
    }
    frame.begun = 1;
    if (!put_who(who))
        return 0;
    put_number(time_ns);
    return 1;
}

static void put_little_endian(uint8_t *to, uint32_t value) {
    for (int at = 0; at < 4; at++)
        to[at] = (uint8_t)(value >> 8 * at);
}

/* Adds it to those that are made. -1: an exception. */
static int end_frame(PyObject *made) {
    if (!frame.begun)
        return 0;
    frame.begun = 0;
    uint8_t *payload = frame.data + HEAD_BYTES;
    put_little_endian(frame.data, (uint32_t)(frame.next - payload));
    put_little_endian(frame.data + 4, crc32_of(payload, (size_t)(frame.next - payload)));
    PyObject *one = Py_BuildValue("(y#nLO)", frame.data, (Py_ssize_t)(frame.next - frame.data), frame.records,
                                  (long long)frame.first_ns, frame.who);
    if (!one)
        return -1;
    int failed = PyList_Append(made, one);
    Py_DECREF(one);
    return failed;
}

/* A frame with room for a row. 1: there is one, 0: for Python, -1: an exception. */
static int make_room(PyObject *made, PyObject *who, int64_t time_ns) {
    if (frame.begun && (frame.rows >= ROWS_MAX || frame.next - frame.data - HEAD_BYTES >= FULL_BYTES) && end_frame(made) < 0)
        return -1;
    return who && (frame.begun || begin_frame(who, time_ns));
}

/* Entries that differ in number and count: each is a row of its own. */
static int pack_locks(PyObject *row, PyObject *made, PyObject *who, int64_t time_ns) {
    int64_t number, numbers[LOCK_PLACES];
    if (PyTuple_GET_SIZE(row) != 5 || !integer_of(PyTuple_GET_ITEM(row, 1), &number))
        return 0;
    PyObject *word = PyTuple_GET_ITEM(row, 2), *entry = PyTuple_GET_ITEM(row, 3), *counts = PyTuple_GET_ITEM(row, 4);
    if (!PyTuple_Check(entry) || PyTuple_GET_SIZE(entry) != 1 + LOCK_PLACES || !PyList_Check(counts) ||
        !integers_of(entry, 1, LOCK_PLACES, numbers) || number > INT64_MAX - PyList_GET_SIZE(counts))
        return 0;
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(counts); at++) {
        uint32_t place;
        int places, room = make_room(made, who, time_ns);
        if (room <= 0)
            return room;
        int index = index_of_word(word, &place, &places);
        if (index < 0 || places != LOCK_PLACES || !integer_of(PyList_GET_ITEM(counts, at), numbers + LOCK_COUNT))
            return 0;
        if (index == frame.word_count)
            put_word(word, places, place, time_ns);
        put_operated(index, places, number++, numbers, time_ns);
        frame.rows++;
    }
    return 1;
}

/* 1: done, 0: for Python, -1: an exception. */
static int pack_strip(PyObject *strip, PyObject *made) {
    PyObject *who = NULL;
    int64_t time_ns = 0;
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(strip); at++) {
        PyObject *item = PyList_GET_ITEM(strip, at);
        if (PyLong_CheckExact(item)) {
            if (!integer_of(item, &time_ns))
                return 0;
            continue;
        }
        if (!PyTuple_Check(item) || !PyTuple_GET_SIZE(item))
            return 0;
        if (!PyType_Check(PyTuple_GET_ITEM(item, 0))) {
            int same = !who || item == who ? 1 : PyObject_RichCompareBool(item, who, Py_EQ);
            if (same < 0 || (!same && end_frame(made) < 0))
                return -1;
            who = item;
            continue;
        }
        int done;
        if ((PyTypeObject *)PyTuple_GET_ITEM(item, 0) == types[T_LOCKS])
            done = pack_locks(item, made, who, time_ns);
        else if ((done = make_room(made, who, time_ns)) > 0)
            done = pack_row(item, time_ns);
        if (done <= 0)
            return done;
    }
    return end_frame(made) < 0 ? -1 : 1;
}

static PyObject *pack(PyObject *module, PyObject *strip) {
    (void)module;
    if (!PyList_Check(strip) || !types[0])
        return PyErr_Format(PyExc_TypeError, "a strip expected, and to know the types");
    PyObject *made = PyList_New(0);
    if (!made)
        return NULL;
    frame.begun = 0;
    int done = pack_strip(strip, made);
    frame.begun = 0;
    if (done == 1)
        return made;
    Py_DECREF(made);
    if (done < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* ---- unpacking ------------------------------------------------------------------------------------------- */

struct read_word {
    const char *text;
    int size, places;
    int64_t last[PLACES_MAX];
};

struct read_connection {
    PyObject *object; /* owned */
    int64_t delivered[4], sent[5], collected;
};

/* Of a payload that is being read. What it names is kept from one to the next, and grows as it must. */
static struct {
    const uint8_t *at, *end;
    PyObject *records, *stamp; /* owned */
    int64_t who[9], time_ns, order;
    PyObject *group, *birth, *view;
    struct read_word *words;
    int word_count, word_room;
    struct read_connection *connections;
    int connection_count, connection_room;
    int64_t clock_read[2], heartbeat[4], readings[4];
} reading;

static int get_count(uint64_t *count) {
    uint64_t found = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (reading.at == reading.end)
            return 0;
        uint64_t byte = *reading.at++;
        if (shift == 63 && (byte & 0x7f) > 1)
            return 0;
        found |= (byte & 0x7f) << shift;
        if (byte < 0x80) {
            *count = found;
            return 1;
        }
    }
    return 0;
}

static inline int get_number(int64_t *number) {
    uint64_t count;
    if (!get_count(&count))
        return 0;
    *number = unzigzag(count);
    return 1;
}

static int get_differences(int64_t *last, int count) {
    for (int at = 0; at < count; at++) {
        int64_t more;
        if (!get_number(&more))
            return 0;
        last[at] = sum(last[at], more);
    }
    return 1;
}

/* A named tuple; its items are taken over, and released if there is none. */
static PyObject *new_tuple(int type, Py_ssize_t count, PyObject **items) {
    PyObject *made = NULL;
    int whole = 1;
    for (Py_ssize_t at = 0; at < count; at++)
        whole = whole && items[at];
    if (whole)
        made = types[type]->tp_alloc(types[type], count);
    for (Py_ssize_t at = 0; at < count; at++) {
        if (made)
            PyTuple_SET_ITEM(made, at, items[at]);
        else
            Py_XDECREF(items[at]);
    }
    return made;
}

static PyObject *new_ids(int type, const int64_t *numbers, PyObject *last) {
    PyObject *items[3];
    int plain = last ? 2 : 3;
    for (int at = 0; at < plain; at++)
        items[at] = PyLong_FromLongLong(numbers[at]);
    if (last)
        items[2] = last;
    return new_tuple(type, 3, items);
}

static int add_record(PyObject *record) {
    if (!record)
        return 0;
    int failed = PyList_Append(reading.records, record);
    Py_DECREF(record);
    return !failed;
}

static PyObject *stamp(void) {
    if (!reading.stamp) {
        PyObject *items[4] = {PyLong_FromLongLong(reading.time_ns), Py_NewRef(reading.group), Py_NewRef(reading.birth),
                              Py_NewRef(reading.view)};
        reading.stamp = new_tuple(T_STAMP, 4, items);
    }
    return Py_XNewRef(reading.stamp);
}

static int get_who(void) {
    for (int at = 0; at < 9; at++)
        if (!get_number(reading.who + at))
            return 0;
    reading.group = PyLong_FromLongLong(reading.who[0]);
    reading.birth = new_ids(T_BIRTH, reading.who + 1, NULL);
    PyObject *primary = new_ids(T_BIRTH, reading.who + 6, NULL);
    reading.view = primary ? new_ids(T_VIEW, reading.who + 4, primary) : NULL;
    return reading.group && reading.birth && reading.view && get_number(&reading.time_ns);
}

static void *grown(void *items, int count, int *room, size_t size) {
    if (count < *room)
        return items;
    int more = *room ? 2 * *room : 64;
    void *moved = PyMem_RawRealloc(items, (size_t)more * size);
    if (moved)
        *room = more;
    return moved;
}

static int keep_word(const char *text, uint64_t size) {
    int places = 0;
    if (size > WORD_BYTES_MAX)
        return 0;
    for (uint64_t at = 0; at < size; at++) {
        if (text[at] < ' ' || text[at] > '~')
            return 0;
        if (text[at] == '%' && (at + 1 == size || text[at + 1] != 'd' || ++places > PLACES_MAX))
            return 0;
    }
    struct read_word *words = grown(reading.words, reading.word_count, &reading.word_room, sizeof *words);
    if (!words)
        return 0;
    reading.words = words;
    struct read_word *word = words + reading.word_count++;
    word->text = text;
    word->size = (int)size;
    word->places = places;
    memset(word->last, 0, sizeof word->last);
    return 1;
}

static int get_word(void) {
    uint64_t size;
    if (!get_count(&size) || size > (uint64_t)(reading.end - reading.at))
        return 0;
    const char *text = (const char *)reading.at;
    reading.at += size;
    return keep_word(text, size);
}

static int get_connection(void) {
    int64_t id[3] = {0, 0, 0};
    struct read_connection *connections =
        grown(reading.connections, reading.connection_count, &reading.connection_room, sizeof *connections);
    if (!connections)
        return 0;
    reading.connections = connections;
    if (!get_differences(id, 3))
        return 0;
    struct read_connection *one = connections + reading.connection_count;
    memset(one, 0, sizeof *one);
    one->object = new_ids(T_CONNECTION, id, NULL);
    reading.connection_count += one->object != NULL;
    return one->object != NULL;
}

static struct read_connection *named_connection(void) {
    uint64_t index;
    return get_count(&index) && index < (uint64_t)reading.connection_count ? reading.connections + index : NULL;
}

static struct read_word *named_word(void) {
    uint64_t index;
    return get_count(&index) && index < (uint64_t)reading.word_count ? reading.words + index : NULL;
}

static char pairs[200]; /* 00 to 99 */

static char *put_text(char *at, int64_t number) {
    char digits[20], *first = digits + sizeof digits;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    for (; rest >= 100; rest /= 100)
        memcpy(first -= 2, pairs + 2 * (rest % 100), 2);
    if (rest >= 10)
        memcpy(first -= 2, pairs + 2 * rest, 2);
    else
        *--first = (char)('0' + rest);
    if (number < 0)
        *at++ = '-';
    size_t size = (size_t)(digits + sizeof digits - first);
    memcpy(at, first, size);
    return at + size;
}

static PyObject *entry_text(const struct read_word *word) {
    char text[WORD_BYTES_MAX + PLACES_MAX * 20], *to = text;
    const int64_t *number = word->last;
    for (const char *from = word->text, *end = from + word->size; from < end; from++) {
        if (*from == '%') {
            to = put_text(to, *number++);
            from++;
        } else
            *to++ = *from;
    }
    PyObject *made = PyUnicode_New(to - text, 127);
    if (made)
        memcpy(PyUnicode_1BYTE_DATA(made), text, (size_t)(to - text));
    return made;
}

static int get_operated(void) {
    int64_t more;
    struct read_word *word = named_word();
    if (!word || !get_number(&more) || !get_differences(word->last, word->places))
        return 0;
    reading.order = sum(sum(reading.order, 1), more);
    PyObject *items[3] = {stamp(), PyLong_FromLongLong(reading.order), entry_text(word)};
    return add_record(new_tuple(T_OPERATED, 3, items));
}

static int get_delivered(void) {
    struct read_connection *one = named_connection();
    if (!one || !get_differences(one->delivered, 4))
        return 0;
    PyObject *items[6] = {stamp(), Py_NewRef(one->object)};
    for (int at = 0; at < 4; at++)
        items[at + 2] = PyLong_FromLongLong(one->delivered[at]);
    return add_record(new_tuple(T_DELIVERED, 6, items));
}

static int get_sent(void) {
    int64_t more;
    struct read_connection *one = named_connection();
    if (!one || !get_differences(one->sent, 5) || !get_number(&more))
        return 0;
    PyObject *items[8] = {stamp(), Py_NewRef(one->object)};
    for (int at = 0; at < 5; at++)
        items[at + 2] = PyLong_FromLongLong(one->sent[at]);
    items[7] = PyLong_FromLongLong(sum(reading.order, more));
    return add_record(new_tuple(T_SENT, 8, items));
}

static int add_clock_read(int64_t clock_id, int64_t value_ns, int64_t number) {
    PyObject *items[4] = {stamp(), PyLong_FromLongLong(clock_id), PyLong_FromLongLong(value_ns), PyLong_FromLongLong(number)};
    return add_record(new_tuple(T_CLOCK_READ, 4, items));
}

static int get_clock_read(void) {
    int64_t more;
    if (!get_differences(reading.clock_read, 2) || !get_number(&more))
        return 0;
    return add_clock_read(reading.clock_read[0], reading.clock_read[1], sum(reading.order, more));
}

static int get_collected(void) {
    struct read_connection *one = named_connection();
    struct read_word *word = one ? named_word() : NULL;
    if (!word || !get_differences(&one->collected, 1))
        return 0;
    PyObject *items[4] = {stamp(), Py_NewRef(one->object), PyUnicode_FromStringAndSize(word->text, word->size),
                          PyLong_FromLongLong(one->collected)};
    return add_record(new_tuple(T_COLLECTED, 4, items));
}

static int get_heartbeat(void) {
    if (!get_differences(reading.heartbeat, 4))
        return 0;
    PyObject *items[3] = {stamp(), new_ids(T_BIRTH, reading.heartbeat, NULL), PyLong_FromLongLong(reading.heartbeat[3])};
    return add_record(new_tuple(T_HEARTBEAT, 3, items));
}

static int get_readings(void) {
    static const char template[] = "time pick=%d thread=%d clock=%d value=%d";
    struct read_word entry = {template, sizeof template - 1, 4, {0}};
    int64_t more;
    uint64_t count;
    if (!get_number(&more) || !get_differences(reading.readings, 3) || !get_count(&count))
        return 0;
    int64_t number = sum(sum(reading.order, 1), more);
    if (count > MAX_PACKED_BYTES || number > INT64_MAX - (int64_t)count)
        return 0;
    memcpy(entry.last, reading.readings, sizeof reading.readings);
    for (; count; count--, number++) {
        if (!get_differences(reading.readings + 3, 1))
            return 0;
        entry.last[3] = reading.readings[3];
        PyObject *items[3] = {stamp(), PyLong_FromLongLong(number), entry_text(&entry)};
        if (!add_record(new_tuple(T_OPERATED, 3, items)) || !add_clock_read(reading.readings[2], entry.last[3], number))
            return 0;
    }
    reading.order = difference(number, 1);
    return 1;
}

static int get_time(void) {
    Py_CLEAR(reading.stamp);
    return get_differences(&reading.time_ns, 1);
}

static int get_rows(void) {
    static int (*const rows[])(void) = {get_time, get_word, get_connection, get_operated, get_delivered, get_sent, get_clock_read,
                                        get_collected, get_heartbeat, get_readings};
    while (reading.at < reading.end) {
        int kind = *reading.at++;
        if (kind > READINGS || !rows[kind]())
            return 0;
    }
    return 1;
}

static int begin_reading(const uint8_t *data, Py_ssize_t size) {
    if (size < 2 || size > MAX_PACKED_BYTES || data[0] != START_FIRST || data[1] != START_SECOND)
        return 0;
    reading.records = PyList_New(0); /* first: from now on nobody else begins */
    if (!reading.records)
        return 0;
    reading.at = data + 2;
    reading.end = data + size;
    reading.order = 0;
    reading.word_count = reading.connection_count = 0;
    memset(reading.clock_read, 0, sizeof reading.clock_read);
    memset(reading.heartbeat, 0, sizeof reading.heartbeat);
    memset(reading.readings, 0, sizeof reading.readings);
    for (int at = 0; at < WORDS_KNOWN; at++)
        if (!keep_word((const char *)PyUnicode_1BYTE_DATA(known_words[at]), (uint64_t)PyUnicode_GET_LENGTH(known_words[at])))
            return 0;
    return get_who();
}

static void end_reading(void) {
    for (int at = 0; at < reading.connection_count; at++)
        Py_CLEAR(reading.connections[at].object);
    reading.connection_count = 0;
    Py_CLEAR(reading.records);
    Py_CLEAR(reading.stamp);
    Py_CLEAR(reading.group);
    Py_CLEAR(reading.birth);
    Py_CLEAR(reading.view);
}

static PyObject *unpack(PyObject *module, PyObject *payload) {
    (void)module;
    if (!PyBytes_Check(payload) || !types[0])
        return PyErr_Format(PyExc_TypeError, "bytes expected, and to know the types");
    if (reading.records)
        Py_RETURN_NONE; /* amidst another one, which the collector has interrupted */
    PyObject *made = NULL;
    if (begin_reading((const uint8_t *)PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload)) && get_rows() &&
        PyList_GET_SIZE(reading.records) <= PyBytes_GET_SIZE(payload))
        made = Py_NewRef(reading.records);
    end_reading();
    if (made)
        return made;
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE; /* Python says what is wrong with it */
}

/* ---- the module ------------------------------------------------------------------------------------------ */

static PyObject *know(PyObject *module, PyObject *arguments) {
    PyObject *given, *words;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "O!O!", &PyTuple_Type, &given, &PyTuple_Type, &words))
        return NULL;
    if (PyTuple_GET_SIZE(given) != T_COUNT || PyTuple_GET_SIZE(words) != WORDS_KNOWN)
        return PyErr_Format(PyExc_ValueError, "%d types and %d words expected", T_COUNT, WORDS_KNOWN);
    for (int at = 0; at < T_COUNT; at++)
        if (!PyType_Check(PyTuple_GET_ITEM(given, at)))
            return PyErr_Format(PyExc_TypeError, "a type expected");
    for (int at = 0; at < WORDS_KNOWN; at++)
        if (places_of(PyTuple_GET_ITEM(words, at)) < 0)
            return PyErr_Format(PyExc_ValueError, "a word expected");
    for (int at = 0; at < T_COUNT; at++)
        Py_XSETREF(types[at], (PyTypeObject *)Py_NewRef(PyTuple_GET_ITEM(given, at)));
    for (int at = 0; at < WORDS_KNOWN; at++)
        Py_XSETREF(known_words[at], Py_NewRef(PyTuple_GET_ITEM(words, at)));
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"know", know, METH_VARARGS, "The types and words that records are made of."},
    {"pack", pack, METH_O, "The frames of a strip; None: it is for Python."},
    {"unpack", unpack, METH_O, "The records of a payload; None: it is for Python."},
    {0},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "llft.journal.packing", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_packing(void) {
    for (int number = 0; number < 100; number++) {
        pairs[2 * number] = (char)('0' + number / 10);
        pairs[2 * number + 1] = (char)('0' + number % 10);
    }
    crc32_begin();
    return PyModule_Create(&definition);
}
