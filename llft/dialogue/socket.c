/* The virtual socket's own ways into a dialogue: `recv`, `send` and `sendall` of `interpose.sockets.Socket`, which
 * need no frame of Python's where the socket's connection is lent.
 *
 * Which connection a socket has is known by its description, after a call that went Python's way (`know`), until
 * its stream is in a state that only Python knows (`forget_known`). Whatever else a socket may be asked, or be in
 * the state for, is Python's business.
 */

#include "dialogue.h"

#include <errno.h>
#include <structmember.h>
#include <sys/socket.h>

enum { SEND_AT_MOST = 262144 /* as `interpose.streams` has it */, KNOWN = 1024, FOR_EVER = -1, AT_ONCE = 0 };

/* By the place of the description in memory: another one in the same place takes its turn. */
static struct known {
    PyObject *description, *stream; /* owned */
    int64_t fd;
} known[KNOWN];

static PyObject *receiving; /* borrowed: the stream that a thread waits for in one of these calls */

static struct {
    PyTypeObject *type;
    Py_ssize_t description_at, timeout_at, number_at;
    PyObject *recv, *send, *sendall; /* Python's way */
    PyObject *fileno;              /* and its own way to say which number it has */
    PyObject *promised, *receiving_count, *stream, *read_ended, *fd; /* the names */
    PyTypeObject *remote; /* of connections' streams */
} sockets;

static PyObject *slot(PyObject *self, Py_ssize_t at) { return *(PyObject **)((char *)self + at); }

static struct known *place_known(const PyObject *description) {
    uint64_t hash = (uint64_t)(uintptr_t)description * 0x9e3779b97f4a7c15u;
    return &known[hash >> 40 & (KNOWN - 1)];
}

/* Connected, open, and its connection is lent; NULL: Python knows. */
static struct known *found_known(PyObject *self, connection_t **c) {
    PyObject *description = slot(self, sockets.description_at), *number = slot(self, sockets.number_at);
    struct known *one = place_known(description);
    if (!dialogue.ident || dialogue.ident != PyThread_get_thread_ident())
        return NULL;
    if (!description || one->description != description)
        return NULL;
    if (!number || !PyLong_CheckExact(number) || PyLong_AsLong(number) < 0)
        return NULL;
    *c = connection_of_fd(one->fd);
    return *c ? one : NULL;
}

/* Whether it waits for ever, or not at all; another number: Python knows. */
static long patience(PyObject *self) {
    PyObject *timeout = slot(self, sockets.timeout_at);
    int overflow = 0; /* a program may set a timeout of centuries: that is not for ever */
    long value = timeout && PyLong_CheckExact(timeout) ? PyLong_AsLongAndOverflow(timeout, &overflow) : 1;
    return !overflow && (value == FOR_EVER || value == AT_ONCE) ? value : 1;
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
    return argument ? PyObject_CallMethod(stream, how, "O", argument) : PyObject_CallMethod(stream, how, NULL);
}

/* -- receiving --------------------------------------------------------------------------------------- */

/* Whether the program was told that it can read, and has not read since (`interpose.streams`). */
static int is_promised(PyObject *stream) {
    PyObject *promised = PyObject_GetAttr(stream, sockets.promised);
    int found = promised ? PyObject_IsTrue(promised) : -1;
    Py_XDECREF(promised);
    return found;
}

/* What came behind the call: the call was made all the same. */
static PyObject *has_raised(PyObject *stream, bool promised) {
    PyObject *type, *value, *trace;
    if (!promised)
        return NULL;
    PyErr_Fetch(&type, &value, &trace);
    if (PyObject_SetAttr(stream, sockets.promised, Py_False) < 0)
        PyErr_Clear(); /* the exception that is under way says more */
    PyErr_Restore(type, value, trace);
    return NULL;
}

static PyObject *received(PyObject *stream, connection_t *c, int64_t limit, bool waits, bool promised) {
    receiving = stream;
    PyObject *result = waits || promised ? hear(c, limit, true) : look(c, limit, true);
    if (receiving == stream)
        receiving = NULL;
    if (!result)
        return has_raised(stream, promised);
    if (result == handed) {
        Py_DECREF(result);
        return resumed(stream, "resume_receiving", NULL);
    }
    if (result == Py_True) {
        Py_DECREF(result);
        errno = EAGAIN;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    if (result != Py_None && promised && PyObject_SetAttr(stream, sockets.promised, Py_False) < 0)
        Py_CLEAR(result);
    if (result && result != Py_None && !PyBytes_CheckExact(result)) /* of the core, for the dialogue is over */
        Py_SETREF(result, PyObject_CallMethod(stream, "received", "O", result));
    return result;
}

enum { OTHER_FLAGS = -1 };

/* Of the call: none, or MSG_DONTWAIT, which may be a number of `socket`'s own type. */
static long flags_of(PyObject *const *arguments, Py_ssize_t count) {
    int overflow;
    if (count < 2)
        return 0;
    long flags = PyLong_Check(arguments[1]) ? PyLong_AsLongAndOverflow(arguments[1], &overflow) : OTHER_FLAGS;
    return flags == 0 || flags == MSG_DONTWAIT ? flags : OTHER_FLAGS;
}

static PyObject *recv_bytes(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
    connection_t *c;
    bool is_plain = (count == 1 || count == 2) && !names && PyLong_CheckExact(arguments[0]);
    long flags = is_plain ? flags_of(arguments, count) : OTHER_FLAGS;
    struct known *one = flags != OTHER_FLAGS ? found_known(self, &c) : NULL;
    long waits = !one ? 1 : flags == MSG_DONTWAIT ? AT_ONCE : patience(self);
    if (!one || waits > 0)
        return usual(sockets.recv, self, arguments, count, names);
    int overflow, promised = is_promised(one->stream);
    int64_t limit = PyLong_AsLongLongAndOverflow(arguments[0], &overflow);
    if (promised < 0)
        return NULL;
    PyObject *stream = Py_NewRef(one->stream), *result = NULL;
    if (!overflow)
        result = received(stream, c, limit, waits == FOR_EVER, promised);
    Py_DECREF(stream);
    if (!overflow && result != Py_None)
        return result;
    Py_XDECREF(result);
    return usual(sockets.recv, self, arguments, count, names);
}

/* -- sending ----------------------------------------------------------------------------------------- */

/* NULL without an exception: it goes Python's way. */
static PyObject *say_bytes(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names, bool all) {
    connection_t *c;
    if (count != 1 || names || !PyBytes_CheckExact(arguments[0]))
        return NULL;
    struct known *one = found_known(self, &c);
    Py_ssize_t size = PyBytes_GET_SIZE(arguments[0]);
    long waits = one ? patience(self) : 1;
    if (waits > 0 || (all && waits != FOR_EVER) || !size || size > SEND_AT_MOST)
        return NULL;
    PyObject *stream = Py_NewRef(one->stream), *result = say(c, arguments[0], waits == FOR_EVER, true);
    if (result == handed)
        Py_SETREF(result, resumed(stream, "resume_sending", arguments[0]));
    else if (result == Py_True)
        Py_SETREF(result, PyLong_FromSsize_t(size));
    else
        Py_CLEAR(result);
    Py_DECREF(stream);
    return result;
}

static PyObject *send_some(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
    PyObject *sent = say_bytes(self, arguments, count, names, false);
    return sent || PyErr_Occurred() ? sent : usual(sockets.send, self, arguments, count, names);
}

/* All of it in as many messages as it takes, and what cannot be said in a dialogue Python's way. */
static PyObject *send_parts(PyObject *self, PyObject *data) {
    const char *bytes = PyBytes_AS_STRING(data);
    for (Py_ssize_t at = 0, size = PyBytes_GET_SIZE(data); at < size; at += SEND_AT_MOST) {
        PyObject *part = PyBytes_FromStringAndSize(bytes + at, size - at < SEND_AT_MOST ? size - at : SEND_AT_MOST);
        PyObject *sent = part ? say_bytes(self, &part, 1, NULL, true) : NULL;
        Py_XDECREF(part);
        if (sent) {
            Py_DECREF(sent);
            continue;
        }
        PyObject *rest = PyErr_Occurred() ? NULL : PyBytes_FromStringAndSize(bytes + at, size - at);
        PyObject *done = rest ? usual(sockets.sendall, self, &rest, 1, NULL) : NULL;
        Py_XDECREF(rest);
        return done;
    }
    Py_RETURN_NONE;
}

static PyObject *send_all(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
    if (count == 1 && !names && PyBytes_CheckExact(arguments[0]) && PyBytes_GET_SIZE(arguments[0]) > SEND_AT_MOST)
        return send_parts(self, arguments[0]);
    PyObject *sent = say_bytes(self, arguments, count, names, true);
    if (!sent)
        return PyErr_Occurred() ? NULL : usual(sockets.sendall, self, arguments, count, names);
    Py_DECREF(sent);
    Py_RETURN_NONE;
}

/* -- the type, and its sockets ----------------------------------------------------------------------- */

static PyMethodDef of_sockets[] = {
    {"recv", (PyCFunction)(void (*)(void))recv_bytes, METH_FASTCALL | METH_KEYWORDS, "Receive bytes."},
    {"send", (PyCFunction)(void (*)(void))send_some, METH_FASTCALL | METH_KEYWORDS, "Send some of the bytes."},
    {"sendall", (PyCFunction)(void (*)(void))send_all, METH_FASTCALL | METH_KEYWORDS, "Send all of the bytes."},
    {0},
};

int place_of_slot(PyObject *type, const char *name, Py_ssize_t *place) {
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
    if (place_of_slot(type, "_description", &sockets.description_at) < 0 ||
        place_of_slot(type, "_timeout_ns", &sockets.timeout_at) < 0 || place_of_slot(type, "_number", &sockets.number_at) < 0)
        return NULL;
    for (int at = 0; of_sockets[at].ml_name; at++) {
        *kept[at] = PyObject_GetAttrString(type, of_sockets[at].ml_name);
        PyObject *method = *kept[at] ? PyDescr_NewMethod((PyTypeObject *)type, &of_sockets[at]) : NULL;
        int failed = !method || PyObject_SetAttrString(type, of_sockets[at].ml_name, method) < 0;
        Py_XDECREF(method);
        if (failed)
            return NULL;
    }
    sockets.promised = PyUnicode_InternFromString("_promised");
    sockets.receiving_count = PyUnicode_InternFromString("_receiving_count");
    if (!sockets.promised || !sockets.receiving_count)
        return NULL;
    if (!(sockets.fileno = PyObject_GetAttrString(type, "fileno")))
        PyErr_Clear(); /* none of them says it in the usual way */
    sockets.type = (PyTypeObject *)Py_NewRef(type);
    Py_RETURN_NONE;
}

static void keep_known(PyObject *description, PyObject *stream, int64_t fd) {
    struct known *one = place_known(description);
    if (one->description != description || one->stream != stream) {
        Py_XSETREF(one->description, Py_NewRef(description));
        Py_XSETREF(one->stream, Py_NewRef(stream));
    }
    one->fd = fd;
}

/* Streams of this type are connections', from now on. */
int know_streams(PyObject *type) {
    sockets.stream = PyUnicode_InternFromString("stream");
    sockets.read_ended = PyUnicode_InternFromString("read_ended");
    sockets.fd = PyUnicode_InternFromString("fd");
    sockets.remote = (PyTypeObject *)Py_NewRef(type);
    return sockets.stream && sockets.read_ended && sockets.fd ? 0 : -1;
}

/* A connection's stream that is not looked at for the first time, and is open for reading. */
static bool learn(PyObject *description) {
    PyObject *stream = PyObject_GetAttr(description, sockets.stream), *fd = NULL, *ended = NULL;
    if (stream && stream != Py_None && sockets.remote && Py_IS_TYPE(stream, sockets.remote)) {
        fd = PyObject_GetAttr(stream, sockets.fd);
        ended = PyObject_GetAttr(stream, sockets.read_ended);
    }
    int overflow = 0;
    long number = fd && ended == Py_False && PyLong_CheckExact(fd) ? PyLong_AsLongAndOverflow(fd, &overflow) : 0;
    if (number > 0 && !overflow)
        keep_known(description, stream, number);
    Py_XDECREF(stream);
    Py_XDECREF(fd);
    Py_XDECREF(ended);
    PyErr_Clear();
    return number > 0 && !overflow;
}

/* Of a socket's description: its connection, and the stream, borrowed. 0: it has none that is open for reading. */
int64_t fd_known(PyObject *description, PyObject **stream) {
    struct known *one = place_known(description);
    if (one->description != description && !learn(description))
        return 0;
    *stream = one->stream;
    return one->fd;
}

/* Borrowed, if it is a socket that says its number in the usual way; else NULL. */
PyObject *number_of_socket(PyObject *file) {
    if (!sockets.type || !PyObject_TypeCheck(file, sockets.type))
        return NULL;
    PyObject *way = PyObject_GetAttrString((PyObject *)Py_TYPE(file), "fileno"), *number = slot(file, sockets.number_at);
    bool is_usual = way == sockets.fileno;
    Py_XDECREF(way);
    PyErr_Clear();
    return is_usual && number && PyLong_CheckExact(number) && PyLong_AsLong(number) >= 0 ? number : NULL;
}

/* know(description, stream, fd): a call on this socket has just been made. */
PyObject *know(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    (void)module;
    if (count != 3)
        return PyErr_Format(PyExc_TypeError, "a description, its stream and its descriptor expected");
    long long fd = PyLong_AsLongLong(arguments[2]);
    if (fd == -1 && PyErr_Occurred())
        return NULL;
    keep_known(arguments[0], arguments[1], fd);
    Py_RETURN_NONE;
}

/* forget_known(fd) */
PyObject *forget_known(PyObject *module, PyObject *number) {
    (void)module;
    long long fd = PyLong_AsLongLong(number);
    if (fd == -1 && PyErr_Occurred())
        return NULL;
    for (int at = 0; at < KNOWN; at++)
        if (known[at].description && known[at].fd == fd) {
            Py_CLEAR(known[at].description);
            Py_CLEAR(known[at].stream);
        }
    Py_RETURN_NONE;
}

/* The dialogue is taken back while its thread waits in `recv`: for the program that is a receive under way. */
int mark_receiving(void) {
    if (!receiving)
        return 0;
    PyObject *done = PyObject_CallMethod(receiving, "begin_receiving", NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

void receive_is_made(void) { receiving = NULL; }

/* The same while another thread runs, which may do so already: so it is another's business from the first moment, and
 * the count goes up without a step of the interpreter's. */
PyObject *begin_receiving(void) {
    PyObject *stream = receiving ? Py_NewRef(receiving) : NULL;
    receiving = NULL;
    PyObject *count = stream ? PyObject_GetAttr(stream, sockets.receiving_count) : NULL;
    PyObject *one = PyLong_FromLong(1), *more = count && one ? PyNumber_Add(count, one) : NULL;
    if (stream && (!more || PyObject_SetAttr(stream, sockets.receiving_count, more) < 0))
        Py_FatalError("a receive cannot be marked");
    Py_XDECREF(count);
    Py_XDECREF(one);
    Py_XDECREF(more);
    return stream;
}

int end_receiving(PyObject *stream) {
    PyObject *done = stream ? PyObject_CallMethod(stream, "end_receiving", NULL) : NULL;
    Py_XDECREF(done);
    return done || !stream ? 0 : -1;
}
