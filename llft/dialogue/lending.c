/* How a dialogue is lent, and taken back: what Python hands over, and gets. */

#include "dialogue.h"

#include <string.h>

#include "../wire/crc32.h"

enum { LATELY_NS = 1000000, DRAWN_MAX = 256 /* as in reading_on.c */ };

static void forget(void) {
    for (int at = 0; at < dialogue.connection_count; at++) {
        connection_t *c = &dialogue.connections[at];
        clear_messages(&c->received);
        clear_messages(&c->arrived);
        Py_CLEAR(c->backlog);
        clear_messages(&c->delivered);
        clear_messages(&c->sent);
        clear_partial(&c->partial);
        Py_CLEAR(c->view);
    }
    for (int at = 0; at < dialogue.remote_count; at++)
        dialogue.remotes[at].held.size = dialogue.remotes[at].numbers.size = 0;
    dialogue.connection_count = dialogue.remote_count = 0;
    dialogue.ident = 0;
    dialogue.generation++;
    dialogue.waiting = false;
    listen_together();
    ask_nothing();
    forget_threads();
    dialogue.orders.size = dialogue.births.size = dialogue.births_bytes = dialogue.counted.size = 0;
    Py_CLEAR(dialogue.born);
    dialogue.called_count = dialogue.sealed_count = dialogue.ahead_count = 0;
    Py_CLEAR(dialogue.frames);
    Py_CLEAR(dialogue.readings);
    Py_CLEAR(dialogue.ahead_entries);
    Py_CLEAR(dialogue.datagrams);
    Py_CLEAR(dialogue.foreign);
    Py_CLEAR(dialogue.postponed);
    Py_CLEAR(dialogue.selected);
}

/* -- lent -------------------------------------------------------------------------------------------- */

static int read_numbers(PyObject *numbers, int64_t **places, Py_ssize_t count) {
    if (PyTuple_GET_SIZE(numbers) != count) {
        PyErr_Format(PyExc_ValueError, "%zd numbers expected, not %zd", count, PyTuple_GET_SIZE(numbers));
        return -1;
    }
    for (Py_ssize_t at = 0; at < count; at++) {
        *places[at] = PyLong_AsLongLong(PyTuple_GET_ITEM(numbers, at));
        if (*places[at] == -1 && PyErr_Occurred())
            return -1;
    }
    return 0;
}

#define READ_NUMBERS(numbers, places) read_numbers(numbers, places, sizeof places / sizeof *places)

void begin_count(count_of *count) {
    count->performed_before = count->performed;
    count->coded_before = count->coded;
    if (dialogue.live && count->performed != count->coded)
        count->performed = count->performed_before = 0; /* not usable here, and not told of */
}

static int read_all_numbers(PyObject *numbers) {
    dialogue_t *d = &dialogue;
    count_of *select = &d->generals[SELECT_COUNT], *random = &d->generals[RANDOM_COUNT];
    int64_t live, journalling, witnessed, is_alone, is_watched, epoll_fd, urgent_fd, hearing_fd, own_fd;
    int64_t *places[] = {
        /* In the order of `runtime.dialogues` ... */
        &epoll_fd, &urgent_fd, &hearing_fd, &own_fd, &is_watched, &d->lazy_ns, &d->spin_ns, &witnessed, &d->births_digest,
        /* ... and of `core.dialogue_lent`. */
        &live, &journalling, &d->thread, &d->receive_kind, &d->send_kind, &d->clock_kind, &d->select_kind,
        &d->random_kind, &d->last_ns, &d->pause_ns, &d->deadline_ns, &d->late_ns,
        &d->suspect_ns, &d->suspect_after_ns, &d->quantum, &d->calls, &d->pick, &d->count,
        &is_alone, &d->context_pick, &d->context_thread, &d->context_fd, &d->context_timestamp,
        &d->context_clock_id, &d->clocks[0].offset, &d->clocks[0].last, &d->clocks[1].offset, &d->clocks[1].last,
        &d->clocks[2].offset, &d->clocks[2].last, &d->clocks[0].coded, &d->clocks[1].coded, &d->clocks[2].coded,
        &select->identifier, &select->performed, &select->coded, &random->performed, &random->coded,
        &d->order_base, &d->group_watermark, &d->order_committed, &d->commits_as_it_leaves,
        &d->order_lag_bytes, &d->order_carried_bytes, &d->datagram_bytes, &d->fragment_room, &d->plain_room, &d->clock,
        &d->window_messages, &d->window_bytes, &d->ack_delay_ns, &d->ack_patience_ns, &d->retransmit_interval_ns,
        &d->keep_alive_interval_ns, &d->may_decode,
        &d->who[0], &d->who[1], &d->who[2], &d->who[3], &d->who[4], &d->who[5], &d->who[6], &d->who[7], &d->who[8],
    };
    if (READ_NUMBERS(numbers, places) < 0)
        return -1;
    d->live = live != 0;
    d->journalling = journalling != 0;
    d->witnessed = witnessed != 0;
    d->is_alone = is_alone != 0;
    d->epoll_fd = (int)epoll_fd;
    d->urgent_fd = (int)urgent_fd;
    d->hearing_fd = (int)hearing_fd;
    d->own_fd = (int)own_fd;
    d->is_watched = is_watched != 0;
    d->performed = 0;
    d->heard_ns = 0;
    d->left = d->is_relay = false;
    d->looked_ns = d->last_ns;
    for (int at = 0; at < CLOCKS; at++)
        d->clocks[at].local = 0;
    random->identifier = RANDOM_IDENTIFIER;
    begin_count(select);
    begin_count(random);
    return 0;
}

int read_addresses(PyObject *addresses, struct sockaddr_in *to, int *to_count) {
    Py_ssize_t count = PySequence_Size(addresses);
    if (count < 0 || count > DESTINATIONS_MAX) {
        PyErr_SetString(PyExc_ValueError, "too many destinations");
        return -1;
    }
    for (Py_ssize_t at = 0; at < count; at++) {
        PyObject *pair = PySequence_GetItem(addresses, at);
        int failed = !pair || datagram->read_address(pair, &to[at]) < 0;
        Py_XDECREF(pair);
        if (failed)
            return -1;
    }
    *to_count = (int)count;
    return 0;
}

/* (birth, newest number, numbers, held, destinations) */
static int read_remote(PyObject *one) {
    remote_t *remote = &dialogue.remotes[dialogue.remote_count];
    const char *birth, *held;
    Py_ssize_t birth_size, held_size;
    long long newest;
    PyObject *numbers, *destinations;
    int64_t *places[] = {&remote->base, &remote->unreflected, &remote->watermark, &remote->committed, &remote->limit};
    if (dialogue.remote_count == REMOTES_MAX || !PyTuple_Check(one) ||
        !PyArg_ParseTuple(one, "y#LO!y#O", &birth, &birth_size, &newest, &PyTuple_Type, &numbers, &held, &held_size,
                          &destinations) ||
        birth_size != DATAGRAMS_BIRTH_BYTES) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "too many groups, or a birth has another length");
        return -1;
    }
    dialogue.remote_count++;
    remote->held.size = remote->numbers.size = 0;
    remote->used = false;
    remote->newest = newest;
    memcpy(remote->birth, birth, DATAGRAMS_BIRTH_BYTES);
    put_bytes(&remote->held, held, (size_t)held_size);
    return READ_NUMBERS(numbers, places) < 0 ? -1 : read_addresses(destinations, remote->to, &remote->to_count);
}

static int read_connection_numbers(PyObject *numbers, connection_t *c) {
    int64_t delivered_digest, sent_digest;
    int64_t *places[] = {
        /* In the order of `core.dialogue_connection`. */
        &c->fd, &c->in_base, &c->out_base, &c->out_view_num, &c->in_view_num,
        &c->received_up_to, &c->received_bytes, &c->delivered_bytes, &c->delivered_position,
        &c->delivered_timestamp, &delivered_digest, &sent_digest,
        &c->ack_told, &c->acked, &c->acked_in_view, &c->transmitted, &c->generated,
        &c->remote_watermark, &c->sent_count, &c->sent_bytes,
        &c->members_timestamp, &c->heard_ns, &c->ack_due_ns, &c->retransmit_ns, &c->keep_alive_ns,
        &c->nothings.performed, &c->nothings.coded, &c->id[0], &c->id[1], &c->id[2],
    };
    if (READ_NUMBERS(numbers, places) < 0)
        return -1;
    c->delivered_digest = (uint32_t)delivered_digest;
    c->sent_digest = (uint32_t)sent_digest;
    c->nothings.identifier = c->fd;
    begin_count(&c->nothings);
    c->read_offset = c->said_ns = c->sends_decoded = 0;
    c->sent_bytes_before = c->sent_bytes;
    c->collected = 0;
    c->gone = (gone_t){0};
    c->used = c->read_decoded = c->has_told_ack = false;
    if (dialogue.heard_ns < c->heard_ns)
        dialogue.heard_ns = c->heard_ns;
    return 0;
}

/* (place of its group, numbers, prefix in, prefix out, view, received, count of fragments, those that are here) */
static int read_connection(PyObject *one) {
    connection_t *c = &dialogue.connections[dialogue.connection_count];
    const char *in_prefix, *out_prefix;
    Py_ssize_t in_size, out_size;
    PyObject *numbers, *view, *received, *fragments;
    int fragment_count;
    if (dialogue.connection_count == CONNECTIONS_MAX || !PyTuple_Check(one) ||
        !PyArg_ParseTuple(one, "iO!y#y#OO!iO!", &c->remote, &PyTuple_Type, &numbers, &in_prefix, &in_size, &out_prefix,
                          &out_size, &view, &PyList_Type, &received, &fragment_count, &PyList_Type, &fragments) ||
        in_size != PREFIX_BYTES || out_size != PREFIX_BYTES || c->remote < 0 || c->remote >= dialogue.remote_count) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "too many connections, or a prefix has another length");
        return -1;
    }
    dialogue.connection_count++;
    c->view = Py_NewRef(view);
    memcpy(c->in_prefix, in_prefix, PREFIX_BYTES);
    memcpy(c->out_prefix, out_prefix, PREFIX_BYTES);
    c->backlog = Py_NewRef(received);
    c->backlog_at = 0;
    if (read_connection_numbers(numbers, c) < 0)
        return -1;
    return read_fragments(&c->partial, fragment_count, fragments);
}

static int read_each(PyObject *list, int (*read)(PyObject *)) {
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(list); at++)
        if (read(PyList_GET_ITEM(list, at)) < 0)
            return -1;
    return 0;
}

static int load_datagrams(void) {
    if (!datagram) {
        PyObject *module = PyImport_ImportModule("llft.runtime.transport.datagrams");
        PyObject *capsule = module ? PyObject_GetAttrString(module, "functions") : NULL;
        datagram = capsule ? PyCapsule_GetPointer(capsule, DATAGRAMS_CAPSULE) : NULL;
        Py_XDECREF(capsule);
        Py_XDECREF(module);
    }
    return datagram ? 0 : -1;
}

/* lend(ident, numbers, nothing, orders, entries, datagrams, remotes, connections, threads, fellow, beating) */
static PyObject *lend(PyObject *module, PyObject *arguments) {
    (void)module;
    unsigned long ident;
    PyObject *numbers, *entries, *datagrams, *remotes, *connections, *threads, *fellow, *beating;
    const char *nothing, *orders;
    Py_ssize_t nothing_size, orders_size;
    if (!PyArg_ParseTuple(arguments, "kO!y#y#O!OO!O!OOO", &ident, &PyTuple_Type, &numbers, &nothing, &nothing_size, &orders,
                          &orders_size, &PyList_Type, &entries, &datagrams, &PyList_Type, &remotes, &PyList_Type,
                          &connections, &threads, &fellow, &beating))
        return NULL;
    if (dialogue.ident)
        return PyErr_Format(PyExc_RuntimeError, "a dialogue is lent");
    forget();
    if (load_datagrams() < 0 || know_kinds_of_messages() < 0 || read_all_numbers(numbers) < 0 ||
        read_each(remotes, read_remote) < 0 || read_each(connections, read_connection) < 0 ||
        read_threads(threads) < 0 || read_fellow(fellow) < 0 || read_beating(beating) < 0)
        return NULL;
    place_connections();
    read_ahead(entries);
    dialogue.nothing.size = 0;
    put_bytes(&dialogue.nothing, nothing, (size_t)nothing_size);
    put_bytes(&dialogue.orders, orders, (size_t)orders_size);
    dialogue.unreflected = dialogue.order_base;
    dialogue.order_begun = order_end();
    dialogue.foreign = PyList_New(0);
    dialogue.postponed = PyList_New(0);
    dialogue.postponed_until_ns = NEVER;
    dialogue.frames = PyList_New(0);
    dialogue.readings = PyList_New(0);
    dialogue.selected = PyList_New(0);
    dialogue.born = PyList_New(0);
    if (!dialogue.foreign || !dialogue.postponed || !dialogue.selected || !dialogue.born || !dialogue.frames ||
        !dialogue.readings)
        return NULL;
    dialogue.datagrams = Py_NewRef(datagrams);
    dialogue.ident = ident;
    tally.lent++;
    Py_RETURN_NONE;
}

static PyObject *is_lent(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    return PyBool_FromLong(dialogue.ident != 0);
}

/* Its thread waits for the network, or has called a moment ago: in both cases it leaves by itself for what is
 * due, or for what has come. */
static PyObject *serves(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    return PyBool_FromLong(dialogue.ident && (dialogue.waiting || monotonic_ns() - dialogue.last_ns < LATELY_NS));
}

static PyObject *is_waiting(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    return PyBool_FromLong(dialogue.ident && dialogue.waiting);
}

/* fellow_heard_ns(): at a backup, when its primary beat last; 0: it has not, in this dialogue. */
static PyObject *fellow_heard(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    bool is_backup = dialogue.ident && !dialogue.live && dialogue.fellow.is_lent;
    return PyLong_FromLongLong(is_backup ? dialogue.fellow.heard_ns : 0);
}

/* -- taken back -------------------------------------------------------------------------------------- */

/* The call that waits, or None: its kind, and what `runtime.dialogues` makes it of. */
static PyObject *asked_now(void) {
    const asked_t *a = &dialogue.asked;
    if (!dialogue.waiting || a->kind == NO_CALL)
        Py_RETURN_NONE;
    if (a->kind == SENDS)
        return Py_BuildValue("sLOO", "send", (long long)a->fd, a->payload, a->is_patient ? Py_True : Py_False);
    if (a->kind == PARKS)
        return Py_BuildValue("(s)", "park");
    if (a->kind == YIELDS)
        Py_FatalError("a Yield waits for the network, which nobody could go on with");
    if (a->kind == READS || a->kind == DRAWS)
        return Py_BuildValue("sL", a->kind == READS ? "clock" : "random", (long long)(a->kind == READS ? a->fd : a->limit));
    if (a->kind == SELECTS)
        return Py_BuildValue("sOLOO", "select", a->fds, (long long)left_of(a), a->writing,
                             a->is_interruptible ? Py_True : Py_False);
    return Py_BuildValue("sLLO", "receive", (long long)a->fd, (long long)a->limit, a->kind == RECEIVES ? Py_True : Py_False);
}

/* take_back(): what has become of it; the call that waits; whether it ended for what came from outside. */
static PyObject *take_back(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    dialogue.ident = 0; /* whatever is run by what follows makes its calls the usual way */
    dialogue.generation++; /* and a thread that waits, and wakes meanwhile, leaves all of this alone */
    PyObject *made = !dialogue.waiting || mark_receiving() == 0 ? account() : NULL, *result = NULL;
    if (made)
        result = Py_BuildValue("NNO", made, asked_now(), dialogue.left || dialogue.waiting ? Py_True : Py_False);
    forget();
    return result;
}

#define NAMED(name) #name,
static const char *const names_of_reasons[] = {REASONS(NAMED)};
unsigned long long reasons[REASON_COUNT];

static PyObject *reasons_now(void) {
    PyObject *found = PyDict_New();
    for (int at = 0; found && at < REASON_COUNT; at++) {
        PyObject *count = reasons[at] ? PyLong_FromUnsignedLongLong(reasons[at]) : NULL;
        if (count && PyDict_SetItemString(found, names_of_reasons[at], count) < 0)
            Py_CLEAR(found);
        Py_XDECREF(count);
    }
    return found;
}

static PyObject *statistics(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    return Py_BuildValue("{sKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsN}", "dialogues", tally.lent, "woken", tally.woken, "heard", tally.heard, "said", tally.said,
                         "selected", tally.selected, "handed", tally.handed, "meanwhile", tally.meanwhile, "foreign",
                         tally.foreign, "sought", tally.sought, "deadlines", tally.deadlines, "others", tally.others, "asked", tally.asked,
                         "answered", tally.answered, "beaten", tally.beaten, "journal_ns", tally.journal_ns, "ended", reasons_now());
}

/* -- calls by descriptor ----------------------------------------------------------------------------- */

/* NULL without an exception: it goes the usual way. */
static connection_t *lent_connection(PyObject *number) {
    long long fd = PyLong_AsLongLong(number);
    return PyErr_Occurred() || !dialogue.ident ? NULL : connection_of_fd(fd);
}

/* receive(fd, limit, counted) */
static PyObject *receive(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    (void)module;
    if (count != 3)
        return PyErr_Format(PyExc_TypeError, "a descriptor, a limit and whether it is counted expected");
    connection_t *c = lent_connection(arguments[0]);
    int overflow, counted = PyObject_IsTrue(arguments[2]);
    long long limit = PyLong_AsLongLongAndOverflow(arguments[1], &overflow);
    if (PyErr_Occurred())
        return NULL;
    return c && !overflow ? hear(c, limit, counted) : Py_NewRef(Py_None); /* Python's numbers have no end */
}

/* look(fd, limit, counted), as it is if it is not said */
static PyObject *look_at(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    (void)module;
    if (count < 2 || count > 3)
        return PyErr_Format(PyExc_TypeError, "a descriptor and a limit expected");
    int overflow;
    connection_t *c = lent_connection(arguments[0]);
    long long limit = PyLong_AsLongLongAndOverflow(arguments[1], &overflow);
    if (PyErr_Occurred())
        return NULL;
    return c && !overflow ? look(c, limit, count < 3 || arguments[2] == Py_True) : Py_NewRef(Py_None);
}

/* send(fd, data, patient, counted), as it is if it is not said */
static PyObject *send_bytes(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    (void)module;
    if (count < 3 || count > 4 || !PyBytes_CheckExact(arguments[1]))
        return PyErr_Format(PyExc_TypeError, "a descriptor, bytes, and whether it may wait and is counted expected");
    connection_t *c = lent_connection(arguments[0]);
    int patient = PyObject_IsTrue(arguments[2]), counted = count < 4 || PyObject_IsTrue(arguments[3]);
    if (PyErr_Occurred())
        return NULL;
    return c ? say(c, arguments[1], patient, counted) : Py_NewRef(Py_None);
}

/* read_clock(clock), which is not counted: a number, or None: it goes the usual way */
static PyObject *read_clock(PyObject *module, PyObject *argument) {
    (void)module;
    int overflow;
    int64_t value;
    long clock_id = PyLong_AsLongAndOverflow(argument, &overflow);
    if (clock_id == -1 && PyErr_Occurred())
        return NULL;
    int read = clock_id >= 0 && clock_id < CLOCKS ? read_clock_in_dialogue((int)clock_id, &value, false) : 0;
    if (read == 1)
        return PyLong_FromLongLong(value);
    return read < 0 ? NULL : Py_NewRef(read ? handed : Py_None);
}

/* draw(size), the same of random bytes */
static PyObject *draw(PyObject *module, PyObject *argument) {
    (void)module;
    Py_ssize_t size = PyLong_AsSsize_t(argument);
    if (size == -1 && PyErr_Occurred())
        return NULL;
    PyObject *data = dialogue.ident && size > 0 && size <= DRAWN_MAX ? draw_in_dialogue(size, false) : NULL;
    return data || PyErr_Occurred() ? data : Py_NewRef(Py_None);
}

/* select(fds, timeout_ns, writing, interruptible, counted) */
static PyObject *select_of(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    (void)module;
    if (count != 5 || !PyTuple_Check(arguments[0]) || !PyTuple_Check(arguments[2]))
        return PyErr_Format(PyExc_TypeError, "descriptors, a timeout and more descriptors expected");
    int overflow, interruptible = PyObject_IsTrue(arguments[3]), counted = PyObject_IsTrue(arguments[4]);
    long long timeout_ns = PyLong_AsLongLongAndOverflow(arguments[1], &overflow);
    if (PyErr_Occurred())
        return NULL;
    if (!dialogue.ident || overflow)
        return Py_NewRef(arguments[1]);
    return choose(arguments[0], arguments[2], timeout_ns, interruptible, counted);
}

PyMethodDef dialogue_methods[] = {
    {"receive", (PyCFunction)(void (*)(void))receive, METH_FASTCALL, "Hear, in a dialogue."},
    {"look", (PyCFunction)(void (*)(void))look_at, METH_FASTCALL, "Hear what is there, in a dialogue."},
    {"park", park, METH_O, "Wait for another thread, in a dialogue."},
    {"unpark", (PyCFunction)(void (*)(void))unpark, METH_FASTCALL, "Let a thread that waits go on, in a dialogue."},
    {"yield_turn", yield_turn, METH_O, "Let others run, in a dialogue."},
    {"send", (PyCFunction)(void (*)(void))send_bytes, METH_FASTCALL, "Say, in a dialogue."},
    {"read_clock", read_clock, METH_O, "Read a clock, in a dialogue."},
    {"draw", draw, METH_O, "Draw random bytes, in a dialogue."},
    {"select", (PyCFunction)(void (*)(void))select_of, METH_FASTCALL, "Select, in a dialogue."},
    {"lend_dialogue", lend, METH_VARARGS, "Lend a thread a dialogue."},
    {"is_talking", is_lent, METH_NOARGS, "Whether a dialogue is lent."},
    {"is_waiting", is_waiting, METH_NOARGS, "Whether its thread waits for the network."},
    {"serves", serves, METH_NOARGS, "Whether its thread serves the network."},
    {"fellow_heard_ns", fellow_heard, METH_NOARGS, "At a backup: when its primary was heard last, in the dialogue."},
    {"speak_for", speak_for, METH_O, "The methods of a type of sockets that move bytes are ours."},
    {"select_for", select_for, METH_VARARGS, "The program's select, and the poll of its epoll objects, are ours."},
    {"know", (PyCFunction)(void (*)(void))know, METH_FASTCALL, "Which connection a socket has."},
    {"forget_known", forget_known, METH_O, "A connection's socket is in a state that only Python knows."},
    {"dialogue_statistics", statistics, METH_NOARGS, "What happened how often."},
    {"take_left_behind", take_left_behind, METH_NOARGS, "Datagrams that a thread heard which has had its call taken away."},
    {"relay", relay, METH_VARARGS, "Pass on what a gateway's connections say, until something else is to be done."},
    {"take_dialogue_back", take_back, METH_NOARGS, "What has become of it."},
    {0},
};

int begin_dialogues(PyObject *module) {
    crc32_begin();
    handed = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type);
    if (!handed)
        return -1;
    if (PyModule_AddObjectRef(module, "HANDED", handed) < 0 || PyModule_AddFunctions(module, dialogue_methods) < 0)
        return -1;
    return begin_gates(module);
}
