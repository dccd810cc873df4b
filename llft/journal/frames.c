/* The frames of many records in one go: what `frame.encode_record` gives for each record of some batches.
 *
 * A record is a hundred bytes of JSON, and nearly all of them are numbers. Python makes an object of every
 * number's text, of every frame and of every checksum; here they are written into one buffer. Laws:
 *
 * 1. The bytes are those of `frame.encode_record`, or there are none: what is not a number of 64 bits, a short
 *    plain word or a tuple of such is left to Python, with all that it came with.
 * 2. Only the compiled lane has this, and without it the journal is the same.
 * 3. The buffer is kept from call to call: the interpreter's lock guards it. A writer bounds what it asks for.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../wire/crc32.h"

#define WORD_MAX 256   /* longer words are no field of a frequent kind */
#define NUMBER_MAX 20  /* characters of 64 bits, with the sign */
#define ITEMS_MAX 16   /* of an entry */
#define VALUE_MAX (WORD_MAX + ITEMS_MAX * NUMBER_MAX + 64) /* what is put without asking again for room */
#define STAMP_MAX 256  /* a stamp has nine numbers */
#define DEPTH_MAX 4    /* of tuples in tuples: a stamp's view has a birth id */
#define HEAD_BYTES 8   /* of a frame: length and checksum */

/* Where the next character goes. Whoever puts one has made sure of its room. */
static struct {
    char *start, *next, *end;
} text;

static struct {
    PyObject *who; /* whose text this is; referred to, so that no other one can have its address */
    size_t size;
    char text[STAMP_MAX];
    uint32_t across[4][256]; /* of a checksum before this text, by its bytes: what it is behind as many zeros */
    uint32_t own;            /* and what the text itself adds to that */
} known;

static char pairs[200]; /* 00 to 99 */

static int reserve(size_t more) {
    if ((size_t)(text.end - text.next) >= more)
        return 1;
    size_t size = (size_t)(text.next - text.start), room = 2 * (size + more);
    char *start = PyMem_RawRealloc(text.start, room);
    if (!start)
        return 0; /* Python asks for the memory as well, and says so */
    text.start = start;
    text.next = start + size;
    text.end = start + room;
    return 1;
}

static inline void put(const char *data, size_t size) {
    memcpy(text.next, data, size);
    text.next += size;
}

static inline void put_one(char character) {
    *text.next++ = character;
}

static int digits_of(uint64_t value) {
    int count = 1;
    for (; value >= 10000; value /= 10000)
        count += 4;
    return count + (value >= 10) + (value >= 100) + (value >= 1000);
}

static void put_integer(long long value) {
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    if (value < 0)
        put_one('-');
    /* Where they belong at once: to move what was just written in pairs takes longer than to count. */
    char *place = text.next += digits_of(rest);
    for (; rest >= 100; rest /= 100)
        memcpy(place -= 2, pairs + 2 * (rest % 100), 2);
    if (rest >= 10)
        memcpy(place - 2, pairs + 2 * rest, 2);
    else
        place[-1] = (char)('0' + rest);
}

static int put_number(PyObject *number) {
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow)
        return 0;
    put_integer(value);
    return 1;
}

/* A short word of characters that JSON has as they are. Behind its last one is a zero. */
static const char *word_of(PyObject *word) {
    if (!PyUnicode_Check(word) || !PyUnicode_IS_COMPACT_ASCII(word) || PyUnicode_GET_LENGTH(word) > WORD_MAX)
        return NULL;
    const char *data = (const char *)PyUnicode_1BYTE_DATA(word);
    for (const char *at = data; at < data + PyUnicode_GET_LENGTH(word); at++)
        if (*at < ' ' || *at > '~' || *at == '"' || *at == '\\')
            return NULL;
    return data;
}

static int put_word(PyObject *word) {
    const char *data = word_of(word);
    if (!data)
        return 0;
    put_one('"');
    put(data, strlen(data));
    put_one('"');
    return 1;
}

static int put_value(PyObject *value, int depth) {
    if (!reserve(VALUE_MAX))
        return 0;
    if (PyLong_CheckExact(value))
        return put_number(value);
    if (!PyTuple_Check(value))
        return put_word(value);
    if (depth == DEPTH_MAX)
        return 0;
    put_one('[');
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(value); at++) {
        if (at)
            put_one(',');
        if (!put_value(PyTuple_GET_ITEM(value, at), depth + 1))
            return 0;
    }
    put_one(']');
    return 1;
}

/* An entry's text: each %d of the template is its next number, behind its kind. */
static int put_entry(PyObject *template, PyObject *entry) {
    const char *from = word_of(template);
    if (!from || !PyTuple_Check(entry) || PyTuple_GET_SIZE(entry) > ITEMS_MAX || !reserve(VALUE_MAX))
        return 0;
    put_one('"');
    for (Py_ssize_t at = 1; *from; from++) {
        if (*from != '%') {
            put_one(*from);
            continue;
        }
        if (*++from != 'd' || at >= PyTuple_GET_SIZE(entry))
            return 0;
        PyObject *number = PyTuple_GET_ITEM(entry, at++);
        if (!PyLong_Check(number) || !put_number(number))
            return 0;
    }
    put_one('"');
    return 1;
}

/* Over the known text, which is more than half of a frame: a checksum is linear, so this takes four steps. */
static uint32_t crc32_over_known(uint32_t crc) {
    return known.across[0][crc & 255] ^ known.across[1][crc >> 8 & 255] ^ known.across[2][crc >> 16 & 255] ^
           known.across[3][crc >> 24] ^ known.own;
}

static void know_checksum(void) {
    static const uint8_t zeros[STAMP_MAX]; /* as long as any text that is known */
    known.own = crc32_over(0, (uint8_t *)known.text, known.size);
    for (int place = 0; place < 4; place++)
        for (uint32_t byte = 0; byte < 256; byte++)
            known.across[place][byte] = crc32_over(byte << 8 * place, zeros, known.size);
}

static void put_little_endian(char *to, uint32_t value) {
    for (int at = 0; at < 4; at++)
        to[at] = (char)(value >> 8 * at);
}

static int put_fields(PyObject *row, int operated) {
    Py_ssize_t size = operated ? 2 : PyTuple_GET_SIZE(row);
    for (Py_ssize_t at = 1; at < size; at++) {
        put_one(',');
        if (!put_value(PyTuple_GET_ITEM(row, at), 0))
            return 0;
    }
    if (!operated)
        return 1;
    put_one(',');
    return put_entry(PyTuple_GET_ITEM(row, 2), PyTuple_GET_ITEM(row, 3));
}

/* A frame that is being written: offsets, for the buffer may move. */
struct frame {
    size_t start, behind; /* where it begins, and what is known ends */
};

/* `time`: the beginning of the stamp, up to what is known. */
static int begin_frame(struct frame *frame, const char *name, const char *time, size_t time_size) {
    size_t name_size = strlen(name);
    frame->start = (size_t)(text.next - text.start);
    if (name_size > WORD_MAX || !reserve(HEAD_BYTES + name_size + STAMP_MAX + VALUE_MAX))
        return 0;
    text.next += HEAD_BYTES;
    put("[\"", 2);
    put(name, name_size);
    put("\",", 2);
    put(time, time_size);
    put(known.text, known.size);
    frame->behind = (size_t)(text.next - text.start);
    return 1;
}

static void end_frame(const struct frame *begun) {
    put_one(']');
    char *frame = text.start + begun->start, *fields = text.start + begun->behind, *payload = frame + HEAD_BYTES;
    uint32_t crc = crc32_over(~0u, (uint8_t *)payload, (size_t)(fields - payload) - known.size);
    crc = ~crc32_over(crc32_over_known(crc), (uint8_t *)fields, (size_t)(text.next - fields));
    put_little_endian(frame, (uint32_t)(text.next - payload));
    put_little_endian(frame + 4, crc);
}

/* The beginning that many frames of one kind and one stamp share, and its checksum. */
struct beginning {
    size_t size;
    uint32_t crc;
    char text[STAMP_MAX + NUMBER_MAX + 32];
};

static void make_beginning(struct beginning *made, const char *name, const char *time, size_t time_size) {
    int size = snprintf(made->text, 32, "[\"%s\",", name);
    memcpy(made->text + size, time, time_size);
    made->crc = crc32_over_known(crc32_over(~0u, (uint8_t *)made->text, (size_t)size + time_size));
    memcpy(made->text + size + time_size, known.text, known.size);
    made->size = (size_t)size + time_size + known.size;
}

/* The frame whose payload began here, with this beginning: its end. */
static void end_alike(char *payload, const struct beginning *beginning) {
    put_one(']');
    char *fields = payload + beginning->size;
    put_little_endian(payload - HEAD_BYTES, (uint32_t)(text.next - payload));
    put_little_endian(payload - 4, ~crc32_over(beginning->crc, (uint8_t *)fields, (size_t)(text.next - fields)));
}

static char *begin_alike(const struct beginning *beginning) {
    char *payload = text.next += HEAD_BYTES;
    put(beginning->text, beginning->size);
    put_one(',');
    return payload;
}

/* Clock readings that follow one another: an Operated and a ClockRead of each. */
static int put_readings(PyObject *row, const char *time, size_t time_size) {
    long long fields[4], value; /* number of the first, pick, thread, clock */
    int overflow;
    char place[4 * NUMBER_MAX + 64];
    if (PyTuple_GET_SIZE(row) != 6 || !PyList_Check(PyTuple_GET_ITEM(row, 5)))
        return 0;
    for (int at = 0; at < 4; at++) {
        PyObject *field = PyTuple_GET_ITEM(row, at + 1);
        if (!PyLong_Check(field) || ((void)(fields[at] = PyLong_AsLongLongAndOverflow(field, &overflow)), overflow))
            return 0;
    }
    int size = snprintf(place, sizeof place, ",\"time pick=%lld thread=%lld clock=%lld value=", fields[1], fields[2],
                        fields[3]);
    struct beginning operated, clock_read;
    make_beginning(&operated, "Operated", time, time_size);
    make_beginning(&clock_read, "ClockRead", time, time_size);
    PyObject *values = PyTuple_GET_ITEM(row, 5);
    if (fields[0] > INT64_MAX - PyList_GET_SIZE(values))
        return 0;
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(values); at++) {
        PyObject *item = PyList_GET_ITEM(values, at);
        if (!PyLong_Check(item) || ((void)(value = PyLong_AsLongLongAndOverflow(item, &overflow)), overflow))
            return 0;
        if (!reserve(2 * (HEAD_BYTES + sizeof operated.text + sizeof place + 4 * NUMBER_MAX)))
            return 0;
        char *payload = begin_alike(&operated);
        put_integer(fields[0] + at);
        put(place, (size_t)size);
        put_integer(value);
        put_one('"');
        end_alike(payload, &operated);
        payload = begin_alike(&clock_read);
        put_integer(fields[3]);
        put_one(',');
        put_integer(value);
        put_one(',');
        put_integer(fields[0] + at);
        end_alike(payload, &clock_read);
    }
    return 1;
}

static int put_row(PyObject *row, const char *time, size_t time_size) {
    struct frame frame;
    if (!PyTuple_Check(row) || !PyTuple_GET_SIZE(row) || !PyType_Check(PyTuple_GET_ITEM(row, 0)))
        return 0;
    const char *name = ((PyTypeObject *)PyTuple_GET_ITEM(row, 0))->tp_name, *last = strrchr(name, '.');
    if (!strcmp(last ? last + 1 : name, "Readings"))
        return put_readings(row, time, time_size);
    if (!begin_frame(&frame, name, time, time_size) ||
        !put_fields(row, PyTuple_GET_SIZE(row) == 4 && !strcmp(name, "Operated")))
        return 0;
    end_frame(&frame);
    return 1;
}

/* Who, which says the same in a million records of one view, as text without its first bracket. As a rule it is
 * the same object; to be told by another one that it is the same costs little, the checksum's tables much. */
static int know(PyObject *who) {
    if (who == known.who)
        return 1;
    size_t start = (size_t)(text.next - text.start);
    if (!PyTuple_Check(who) || !put_value(who, 0))
        return 0;
    size_t size = (size_t)(text.next - text.start) - start - 1;
    if (size > STAMP_MAX - NUMBER_MAX - 2)
        return 0;
    const char *said = text.start + start + 1;
    int is_new = size != known.size || memcmp(known.text, said, size);
    text.next = text.start + start;
    Py_INCREF(who);
    Py_XSETREF(known.who, who);
    if (!is_new)
        return 1;
    memcpy(known.text, said, size);
    known.size = size;
    know_checksum();
    return 1;
}

static int put_batch(PyObject *batch) {
    if (!PyTuple_Check(batch) || PyTuple_GET_SIZE(batch) != 3 || !reserve(VALUE_MAX))
        return 0;
    PyObject *time_ns = PyTuple_GET_ITEM(batch, 0), *rows = PyTuple_GET_ITEM(batch, 2);
    if (!PyLong_Check(time_ns) || !PyList_Check(rows) || !know(PyTuple_GET_ITEM(batch, 1)))
        return 0;
    char time[NUMBER_MAX + 2], *before = text.next;
    put_one('[');
    if (!put_number(time_ns))
        return 0;
    put_one(',');
    size_t size = (size_t)(text.next - before);
    memcpy(time, before, size);
    text.next = before;
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(rows); at++)
        if (!put_row(PyList_GET_ITEM(rows, at), time, size))
            return 0;
    return 1;
}

static PyObject *encode(PyObject *module, PyObject *batches) {
    (void)module;
    if (!PyList_Check(batches))
        return PyErr_Format(PyExc_TypeError, "a list of batches expected");
    text.next = text.start;
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(batches); at++)
        if (!put_batch(PyList_GET_ITEM(batches, at)))
            Py_RETURN_NONE;
    return PyBytes_FromStringAndSize(text.start, text.next - text.start);
}

static void make_tables(void) {
    for (int number = 0; number < 100; number++) {
        pairs[2 * number] = (char)('0' + number / 10);
        pairs[2 * number + 1] = (char)('0' + number % 10);
    }
    crc32_begin();
}

static PyMethodDef methods[] = {{"encode", encode, METH_O, "The frames of all records of these batches."}, {0}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "llft.journal.frames", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_frames(void) {
    make_tables();
    return PyModule_Create(&definition);
}
