/* The virtual socket's own ways into a dialogue: `recv`, `send` and `sendall` of `interpose.sockets.Socket`, which
 * need no frame of Python's where the socket is the dialogue's.
 *
 * Which socket that is is known by its description, after a call that went Python's way (`know`), until the
 * dialogue is taken back. Whatever else a socket may be asked, or be in the state for, is Python's business.
 */

#include "dialogue.h"

#include <structmember.h>

enum { SEND_AT_MOST = 262144 }; /* as `interpose.streams` has it */

static struct {
    PyObject *description, *stream;
    bool in_use; /* its thread waits in a call of these */
} known;

static struct {
    PyTypeObject *type;
    Py_ssize_t description_at, timeout_at, number_at;
    PyObject *recv, *send, *sendall; /* Python's way */
} sockets;

static PyObject *slot(PyObject *self, Py_ssize_t at) { return *(PyObject **)((char *)self + at); }

/* Connected, open, and set to wait for ever. */
static bool is_known(PyObject *self) {
    if (!known.description || slot(self, sockets.description_at) != known.description)
        return false;
    PyObject *timeout = slot(self, sockets.timeout_at), *number = slot(self, sockets.number_at);
    return timeout && PyLong_CheckExact(timeout) && PyLong_AsLong(timeout) == -1 && number &&
           PyLong_CheckExact(number) && PyLong_AsLong(number) >= 0;
}

static PyObject *usual(PyObject *function, PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
    PyObject *all[8];
    Py_ssize_t more = names ? PyTuple_GET_SIZE(names) : 0;
    if (count + more > 7)
        return PyErr_Format(PyExc_TypeError, "too many arguments");
    all[0] = self;
    for (Py_ssize_t at = 0; at < count + more; at++)
        all[at + 1] = arguments[at];
    return PyObject_Vectorcall(function, all, (size_t)count + 1, names);
}

/* The core has the call: the stream knows how to wait for what comes of it. */
static PyObject *resumed(PyObject *stream, const char *how, PyObject *argument) {
    PyObject *result = argument ? PyObject_CallMethod(stream, how, "O", argument) : PyObject_CallMethod(stream, how, NULL);
    Py_DECREF(stream);
    return result;
}

static PyObject *recv_bytes(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
    if (count != 1 || names || !PyLong_CheckExact(arguments[0]) || !is_known(self))
        return usual(sockets.recv, self, arguments, count, names);
    PyObject *stream = Py_NewRef(known.stream);
    known.in_use = true;
    PyObject *result = hear(dialogue.fd, PyLong_AsLongLong(arguments[0]), true);
    known.in_use = false;
    if (result == handed) {
        Py_DECREF(result);
        return resumed(stream, "resume_receiving", NULL);
    }
    Py_DECREF(stream);
    if (result != Py_None)
        return result;
    Py_DECREF(result);
    return usual(sockets.recv, self, arguments, count, names);
}

/* NULL without an exception: it goes Python's way. */
static PyObject *say_bytes(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
    if (count != 1 || names || !PyBytes_CheckExact(arguments[0]) || !is_known(self))
        return NULL;
    Py_ssize_t size = PyBytes_GET_SIZE(arguments[0]);
    if (!size || size > SEND_AT_MOST)
        return NULL;
    PyObject *stream = Py_NewRef(known.stream), *result = say(dialogue.fd, arguments[0], true);
    if (result == handed) {
        Py_DECREF(result);
        return resumed(stream, "resume_sending", arguments[0]);
    }
    Py_DECREF(stream);
    if (result == Py_True) {
        Py_DECREF(result);
        return PyLong_FromSsize_t(size);
    }
    Py_XDECREF(result);
    return NULL;
}

static PyObject *send_some(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
    PyObject *sent = say_bytes(self, arguments, count, names);
    return sent || PyErr_Occurred() ? sent : usual(sockets.send, self, arguments, count, names);
}

static PyObject *send_all(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
    PyObject *sent = say_bytes(self, arguments, count, names);
    if (!sent)
        return PyErr_Occurred() ? NULL : usual(sockets.sendall, self, arguments, count, names);
    Py_DECREF(sent);
    Py_RETURN_NONE;
}

static PyMethodDef of_sockets[] = {
    {"recv", (PyCFunction)(void (*)(void))recv_bytes, METH_FASTCALL | METH_KEYWORDS, "Receive bytes."},
    {"send", (PyCFunction)(void (*)(void))send_some, METH_FASTCALL | METH_KEYWORDS, "Send some of the bytes."},
    {"sendall", (PyCFunction)(void (*)(void))send_all, METH_FASTCALL | METH_KEYWORDS, "Send all of the bytes."},
    {0},
};

static int place_of(PyObject *type, const char *name, Py_ssize_t *place) {
    PyObject *member = PyObject_GetAttrString(type, name);
    if (!member)
        return -1;
    int is_slot = Py_IS_TYPE(member, &PyMemberDescr_Type);
    if (is_slot)
        *place = ((PyMemberDescrObject *)member)->d_member->offset;
    Py_DECREF(member);
    if (!is_slot)
        PyErr_Format(PyExc_TypeError, "%s is no slot", name);
    return is_slot ? 0 : -1;
}

/* speak_for(type): its methods that move bytes are these, from now on. */
PyObject *speak_for(PyObject *module, PyObject *type) {
    (void)module;
    PyObject **kept[] = {&sockets.recv, &sockets.send, &sockets.sendall};
    if (!PyType_Check(type) || sockets.type)
        return PyErr_Format(PyExc_TypeError, "a type expected, once");
    if (place_of(type, "_description", &sockets.description_at) < 0 ||
        place_of(type, "_timeout_ns", &sockets.timeout_at) < 0 || place_of(type, "_number", &sockets.number_at) < 0)
        return NULL;
    for (int at = 0; of_sockets[at].ml_name; at++) {
        *kept[at] = PyObject_GetAttrString(type, of_sockets[at].ml_name);
        PyObject *method = *kept[at] ? PyDescr_NewMethod((PyTypeObject *)type, &of_sockets[at]) : NULL;
        int failed = !method || PyObject_SetAttrString(type, of_sockets[at].ml_name, method) < 0;
        Py_XDECREF(method);
        if (failed)
            return NULL;
    }
    sockets.type = (PyTypeObject *)Py_NewRef(type);
    Py_RETURN_NONE;
}

/* know(description, stream, fd): a call on this socket has just been made. */
PyObject *know(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    (void)module;
    if (count != 3)
        return PyErr_Format(PyExc_TypeError, "a description, its stream and its descriptor expected");
    long long fd = PyLong_AsLongLong(arguments[2]);
    if (fd == -1 && PyErr_Occurred())
        return NULL;
    if (dialogue.ident == PyThread_get_thread_ident() && dialogue.fd == fd && known.description != arguments[0]) {
        Py_XSETREF(known.description, Py_NewRef(arguments[0]));
        Py_XSETREF(known.stream, Py_NewRef(arguments[1]));
    }
    Py_RETURN_NONE;
}

void forget_socket(void) {
    Py_CLEAR(known.description);
    Py_CLEAR(known.stream);
}

PyObject *forget_known(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    forget_socket();
    Py_RETURN_NONE;
}

/* The dialogue is taken back while its thread waits in `recv`: for the program that is a receive under way. */
int mark_receiving(void) {
    if (!known.in_use || !known.stream)
        return 0;
    PyObject *done = PyObject_CallMethod(known.stream, "begin_receiving", NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}
