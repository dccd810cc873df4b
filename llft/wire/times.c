/* Many clock readings in one go: as entries of the order stream, out of it, and as events of the birth log.
 *
 * What `order_writers`, `order_readers` and `birth_log` do for one of them. Laws:
 *
 * 1. The bytes are theirs. What is not an ordinary reading is left to them: `encode` and `pack` give None,
 *    `decode` stops before it.
 * 2. Only the compiled lane has this, and without it the streams are the same.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

enum { TIME = 4, VARINT_MAX = 10, MANY = 64 };

static uint8_t *put_uvarint(uint8_t *to, uint64_t value) {
    for (; value > 127; value >>= 7)
        *to++ = (uint8_t)(value & 127) | 128;
    *to++ = (uint8_t)value;
    return to;
}

/* 0: it is no number of 62 bits, whose double has 63. */
static int number_of(PyObject *item, int64_t *number) {
    int overflow;
    if (!PyLong_CheckExact(item))
        return 0;
    long long value = PyLong_AsLongLongAndOverflow(item, &overflow);
    *number = value;
    return !overflow && value >= 0 && value < (int64_t)1 << 62;
}

static PyObject *put_all(PyObject *values, Py_ssize_t from, const uint8_t *head, Py_ssize_t head_size, int differences) {
    Py_ssize_t count = PyList_GET_SIZE(values);
    int64_t before = 0, value;
    if (count > MANY || head_size > VARINT_MAX || (from && !number_of(PyList_GET_ITEM(values, 0), &before)))
        Py_RETURN_NONE;
    uint8_t made[MANY * 2 * VARINT_MAX], *to = made;
    for (Py_ssize_t at = from; at < count; at++) {
        if (!number_of(PyList_GET_ITEM(values, at), &value) || (differences && value < before))
            Py_RETURN_NONE;
        for (Py_ssize_t byte = 0; byte < head_size; byte++)
            *to++ = head[byte];
        to = put_uvarint(to, (uint64_t)(differences ? value - before : value) << 1);
        before = value;
    }
    return PyBytes_FromStringAndSize((char *)made, to - made);
}

/* Entries of all readings but the first, each of which differs from the one before in nothing but its value. */
static PyObject *encode(PyObject *module, PyObject *values) {
    (void)module;
    const uint8_t head = TIME;
    if (!PyList_Check(values) || !PyList_GET_SIZE(values))
        Py_RETURN_NONE;
    return put_all(values, 1, &head, 1, 1);
}

/* Each value as a zigzag varint behind the same bytes. */
static PyObject *pack(PyObject *module, PyObject *arguments) {
    (void)module;
    const char *head;
    Py_ssize_t size;
    PyObject *values;
    if (!PyArg_ParseTuple(arguments, "y#O!", &head, &size, &PyList_Type, &values))
        return NULL;
    return put_all(values, 0, (const uint8_t *)head, size, 0);
}

/* A zigzag varint of a non-negative number below 2 ** 62; 0: it is another, or not all of it is there. */
static Py_ssize_t difference_at(const uint8_t *data, Py_ssize_t size, uint64_t *found) {
    uint64_t value = 0;
    for (Py_ssize_t at = 0; at < size && at < 9; at++) {
        value |= (uint64_t)(data[at] & 127) << 7 * at;
        if (data[at] < 128) {
            *found = value >> 1;
            return (value & 1) || (at && !data[at]) ? 0 : at + 1;
        }
    }
    return 0;
}

/* Entries that follow this one and differ from it in nothing but a later value: they, and where they end. */
static PyObject *decode(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *buffer, *entry;
    Py_ssize_t position;
    if (!PyArg_ParseTuple(arguments, "O!nO!", &PyByteArray_Type, &buffer, &position, &PyTuple_Type, &entry))
        return NULL;
    PyObject *entries = PyList_New(0);
    int64_t value;
    if (!entries || PyTuple_GET_SIZE(entry) != 5 || !number_of(PyTuple_GET_ITEM(entry, 4), &value))
        return entries ? Py_BuildValue("Nn", entries, position) : NULL;
    const uint8_t *data = (const uint8_t *)PyByteArray_AS_STRING(buffer);
    Py_ssize_t size = PyByteArray_GET_SIZE(buffer);
    while (position < size && data[position] == TIME) {
        uint64_t difference;
        Py_ssize_t length = difference_at(data + position + 1, size - position - 1, &difference);
        if (!length || (uint64_t)value + difference >= (uint64_t)1 << 62)
            break;
        value += (int64_t)difference;
        PyObject *one = PyTuple_New(5), *number = PyLong_FromLongLong(value);
        for (int at = 0; one && at < 4; at++)
            PyTuple_SET_ITEM(one, at, Py_NewRef(PyTuple_GET_ITEM(entry, at)));
        if (one)
            PyTuple_SET_ITEM(one, 4, number);
        if (!one || !number || PyList_Append(entries, one)) {
            Py_XDECREF(one);
            Py_DECREF(entries);
            return NULL;
        }
        Py_DECREF(one);
        position += 1 + length;
    }
    return Py_BuildValue("Nn", entries, position);
}

static PyMethodDef methods[] = {
    {"encode", encode, METH_O, "Entries of all these readings but the first."},
    {"pack", pack, METH_VARARGS, "These numbers, each behind the same bytes."},
    {"decode", decode, METH_VARARGS, "Readings that follow this entry, and where they end."},
    {0},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "llft.wire.times", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_times(void) {
    return PyModule_Create(&definition);
}
