/* CRC-32 for Python: as zlib.crc32, several times faster (crc32.c). */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "crc32.h"

static PyObject *crc32(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (count < 1 || count > 2)
        return PyErr_Format(PyExc_TypeError, "data, and the checksum of what came before");
    unsigned long before = 0;
    if (count == 2 && (before = PyLong_AsUnsignedLongMask(args[1])) == (unsigned long)-1 && PyErr_Occurred())
        return NULL;
    Py_buffer data;
    if (PyObject_GetBuffer(args[0], &data, PyBUF_SIMPLE) < 0)
        return NULL;
    uint32_t crc = ~crc32_over(~(uint32_t)before, data.buf, (size_t)data.len);
    PyBuffer_Release(&data);
    return PyLong_FromUnsignedLong(crc);
}

static PyObject *joined(PyObject *module, PyObject *args) {
    (void)module;
    unsigned int first, second;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "IIn", &first, &second, &size))
        return NULL;
    return PyLong_FromUnsignedLong(crc32_joined(first, second, (size_t)size));
}

static PyMethodDef methods[] = {
    {"joined", joined, METH_VARARGS, "Of two pieces: the checksum of each, and the size of the second one."},
    {"crc32", (PyCFunction)(void (*)(void))crc32, METH_FASTCALL, "As zlib.crc32."},
    {0},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "llft.wire.polynomial", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_polynomial(void) {
    crc32_begin();
    return PyModule_Create(&definition);
}
