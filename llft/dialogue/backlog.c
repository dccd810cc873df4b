/* What a connection had received before it was lent, and was not read. A backup that is behind has thousands of messages
 * there, and to turn all of them over whenever a dialogue begins or ends would leave it no time for anything else. So
 * they stay the core's objects until they are read; what comes meanwhile waits behind them.
 *
 * Law: messages are read in their order; one that says more than its bytes (flags, another view) is the core's. */

#include "dialogue.h"

bool has_backlog(const connection_t *c) { return c->backlog && c->backlog_at < PyList_GET_SIZE(c->backlog); }

message_t *add_received(connection_t *c) {
    return add_message(has_backlog(c) || c->arrived.count ? &c->arrived : &c->received);
}

static bool read_number(PyObject *tuple, Py_ssize_t at, int64_t *number) {
    int overflow;
    *number = PyLong_AsLongLongAndOverflow(PyTuple_GET_ITEM(tuple, at), &overflow);
    if (PyErr_Occurred())
        PyErr_Clear();
    return !overflow && *number >= 0 && *number <= NEVER;
}

static bool is_of_view(PyObject *view, const connection_t *c) {
    int is_same = view == c->view ? 1 : PyObject_RichCompareBool(view, c->view, Py_EQ);
    if (is_same < 0)
        PyErr_Clear();
    return is_same == 1;
}

/* (position, timestamp, view, flags, payload, end of its order information), as `core.messaging.kept` has it */
static bool read_message(PyObject *one, const connection_t *c, message_t *message) {
    int64_t flags;
    *message = (message_t){0};
    if (!PyTuple_Check(one) || PyTuple_GET_SIZE(one) != 6 || !read_number(one, 0, &message->position) ||
        !read_number(one, 1, &message->timestamp) || !is_of_view(PyTuple_GET_ITEM(one, 2), c) ||
        !read_number(one, 3, &flags) || flags || !PyBytes_CheckExact(PyTuple_GET_ITEM(one, 4)) ||
        !read_number(one, 5, &message->order_end))
        return false;
    message->payload = Py_NewRef(PyTuple_GET_ITEM(one, 4));
    return true;
}

/* Behind those that can be read already; false: there is none, or it is the core's. */
static bool read_next(connection_t *c) {
    message_t message;
    if (has_backlog(c)) {
        if (!read_message(PyList_GET_ITEM(c->backlog, c->backlog_at), c, &message))
            return false;
        c->backlog_at++;
        *add_message(&c->received) = message;
        return true;
    }
    if (!c->arrived.count)
        return false;
    for (size_t at = 0; at < c->arrived.count; at++)
        *add_message(&c->received) = c->arrived.items[c->arrived.first + at];
    c->arrived.first = c->arrived.count = 0;
    return true;
}

bool is_readable(connection_t *c, int64_t size) {
    int64_t there = -c->read_offset;
    size_t at = 0;
    do {
        for (; at < c->received.count; at++) {
            there += PyBytes_GET_SIZE(c->received.items[c->received.first + at].payload);
            if (there >= size)
                return true;
        }
    } while (read_next(c));
    return false;
}
