/* Claims and releases of one mutex out of the order stream, many in one go: what `order_locks.locks_at` does.
 *
 * Only the compiled lane has this, and without it the entries are the same.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum { NEW_COUNT = 0x80, VARINT_MAX = 9 };

/* A varint below 2 ** 63. NULL: it is another, or not all of it is there. */
static const uint8_t *get_uvarint(const uint8_t *at, const uint8_t *end, long long *value) {
    *value = 0;
    for (int index = 0; index < VARINT_MAX && at < end; index++) {
        *value |= (long long)(*at & 127) << 7 * index;
        if (*at++ < 128)
            return at;
    }
    return NULL;
}

/* Behind an entry that begins there, and goes on from this count; NULL: there is none. */
static const uint8_t *next_lock(const uint8_t *at, const uint8_t *end, const Py_buffer *head, long long *count) {
    const uint8_t *start = head->buf;
    if (end - at < head->len || (*at & ~NEW_COUNT) != *start || memcmp(at + 1, start + 1, (size_t)head->len - 1))
        return NULL;
    if (*at & NEW_COUNT)
        return get_uvarint(at + head->len, end, count);
    ++*count;
    return at + head->len;
}

static PyObject *decode(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *buffer, *counts = NULL, *number;
    Py_ssize_t position;
    Py_buffer head;
    long long count;
    if (!PyArg_ParseTuple(arguments, "O!ny*O", &PyByteArray_Type, &buffer, &position, &head, &number))
        return NULL;
    int overflow;
    count = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (!PyErr_Occurred())
        counts = PyList_New(0);
    const uint8_t *data = (const uint8_t *)PyByteArray_AS_STRING(buffer), *end = data + PyByteArray_GET_SIZE(buffer);
    const uint8_t *at = data + position, *behind;
    while (counts && head.len && !overflow && count < LLONG_MAX && (behind = next_lock(at, end, &head, &count))) {
        PyObject *one = PyLong_FromLongLong(count);
        if (!one || PyList_Append(counts, one))
            Py_CLEAR(counts);
        Py_XDECREF(one);
        at = behind;
    }
    PyBuffer_Release(&head);
    return counts ? Py_BuildValue("Nn", counts, (Py_ssize_t)(at - data)) : NULL;
}

static PyMethodDef methods[] = {
    {"decode", decode, METH_VARARGS, "Counts of entries from a position on, with this head, behind this count; and where they end."},
    {0},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "llft.wire.locks", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_locks(void) {
    return PyModule_Create(&definition);
}
