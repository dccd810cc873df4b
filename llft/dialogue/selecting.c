/* Sets of descriptors that a program waits for: `select.select`, and `poll` of its epoll objects, where all that they
 * have to ask is of the dialogue. The twin of `interpose.waiting`, which says what is asked, and what comes of it.
 *
 * Of a connection there is nothing to see but what the dialogue has; of the program's own pipes, pairs and listeners
 * it is looked here whether they have something. What anything else is that a set may have is Python's business, and so
 * is what has changed while other threads ran.
 *
 * Laws: the question is the one that Python would ask, and the answer what Python would make of it, in the same order;
 * whatever is out of the ordinary goes the usual way before anything has happened, or, when the question has been
 * asked, Python goes on with what came of it.
 */

#include "dialogue.h"

#include <math.h>
#include <poll.h>
#include <sys/epoll.h>

enum {
    INTERESTS_MAX = CONNECTIONS_MAX + 16,
    WATCHED_MAX = 16,
    DOOR = 0,     /* the core's descriptor of those who come */
    INSIDE = -1,  /* the core is not asked about it */
    ROOM = 65536, /* of a pipe, as `interpose.streams` has it */
    READABLE = POLLIN | POLLRDNORM,
    WRITABLE = POLLOUT | POLLWRNORM,
};

/* (what, whether its readability matters, whether its writability does), and what is known of it */
typedef struct {
    PyObject *file;        /* owned: as the program calls it */
    PyObject *description; /* owned */
    PyObject *stream;      /* owned: of a connection */
    int64_t fd;
    bool reading, writing, is_readable, is_writable;
} interest_t;

typedef struct {
    interest_t interests[INTERESTS_MAX];
    Py_ssize_t count;
    int64_t reading[INTERESTS_MAX], writing[INTERESTS_MAX]; /* what is asked */
    Py_ssize_t reading_count, writing_count;
    PyObject *fds, *writing_fds; /* owned: the same as tuples */
    bool is_there;               /* something is, without asking */
    PyObject *watchers[WATCHED_MAX]; /* owned: dictionaries of those who wait for what is inside */
    int watched;
} set_t;

static struct {
    PyTypeObject *socket, *local;
    PyObject *descriptions, *hall; /* dictionaries */
    PyObject *has_company;         /* whether others might change a set, or what is in it, while it is waited for */
    PyObject *ask, *go_on, *select_on; /* Python's way, when C cannot go on */
    PyObject *select, *poll;           /* and altogether */
} known;

static struct {
    PyObject *listener, *arrivals, *incoming, *outgoing, *data, *reader_open, *writer_open, *read_ended;
    PyObject *watchers, *interests, *masks, *version, *number, *receiving_count, *promised;
} names;

/* -- what is looked at ------------------------------------------------------------------------------- */

static bool is_true(PyObject *object, PyObject *name) {
    PyObject *value = PyObject_GetAttr(object, name);
    int found = value ? PyObject_IsTrue(value) : 0;
    Py_XDECREF(value);
    return found > 0;
}

/* -1: it cannot be said. */
static Py_ssize_t size_of(PyObject *object, PyObject *name) {
    PyObject *value = PyObject_GetAttr(object, name);
    Py_ssize_t size = value ? PyObject_Size(value) : -1;
    Py_XDECREF(value);
    return size;
}

/* Of something that is watched while it is waited for. False: there are too many. */
static bool keep_watchers(set_t *set, PyObject *watched) {
    PyObject *watchers = set->watched < WATCHED_MAX ? PyObject_GetAttr(watched, names.watchers) : NULL;
    if (!watchers || !PyDict_CheckExact(watchers)) {
        Py_XDECREF(watchers);
        return false;
    }
    set->watchers[set->watched++] = watchers;
    return true;
}

/* A listener: whether somebody has come who can be accepted; if not, the core is asked. */
static bool look_at_listener(set_t *set, interest_t *one, PyObject *listener) {
    Py_ssize_t arrivals = size_of(listener, names.arrivals);
    if (arrivals < 0 || PyDict_GET_SIZE(known.hall) || !keep_watchers(set, listener))
        return false;
    one->is_readable = one->reading && arrivals;
    one->is_writable = false;
    one->fd = one->reading && !arrivals ? DOOR : INSIDE;
    return true;
}

static bool look_at_socket(set_t *set, interest_t *one) {
    PyObject *stream = NULL;
    one->is_readable = one->is_writable = false;
    one->fd = fd_known(one->description, &stream);
    if (one->fd > 0) {
        Py_XSETREF(one->stream, Py_NewRef(stream));
        return true;
    }
    PyObject *listener = PyObject_GetAttr(one->description, names.listener);
    bool is_looked_at = listener && listener != Py_None && look_at_listener(set, one, listener);
    Py_XDECREF(listener);
    return is_looked_at;
}

/* An end of the program's own pipe or pair. */
static bool look_at_end(set_t *set, interest_t *one) {
    PyObject *incoming = PyObject_GetAttr(one->description, names.incoming);
    PyObject *outgoing = incoming ? PyObject_GetAttr(one->description, names.outgoing) : NULL;
    bool is_looked_at = outgoing != NULL, has_incoming = incoming && incoming != Py_None;
    bool has_outgoing = outgoing && outgoing != Py_None;
    one->fd = INSIDE;
    one->is_readable = one->is_writable = false;
    if (is_looked_at && one->reading)
        one->is_readable = is_true(one->description, names.read_ended) ||
                           (has_incoming && (size_of(incoming, names.data) || !is_true(incoming, names.writer_open)));
    if (is_looked_at && one->writing && has_outgoing)
        one->is_writable = size_of(outgoing, names.data) < ROOM || !is_true(outgoing, names.reader_open);
    is_looked_at = is_looked_at && (!has_incoming || keep_watchers(set, incoming)) &&
                   (!has_outgoing || keep_watchers(set, outgoing));
    Py_XDECREF(incoming);
    Py_XDECREF(outgoing);
    return is_looked_at;
}

static bool look_at(set_t *set, interest_t *one) {
    bool is_looked_at = false;
    if (Py_IS_TYPE(one->description, known.socket))
        is_looked_at = look_at_socket(set, one);
    else if (Py_IS_TYPE(one->description, known.local))
        is_looked_at = look_at_end(set, one);
    if (!PyErr_Occurred())
        return is_looked_at;
    PyErr_Clear(); /* Python says it again */
    return false;
}

/* -- what is asked ----------------------------------------------------------------------------------- */

static bool is_asked(const int64_t *fds, Py_ssize_t count, int64_t fd) {
    for (Py_ssize_t at = 0; at < count; at++)
        if (fds[at] == fd)
            return true;
    return false;
}

/* One connection with two numbers is asked about once, and is Python's. */
static bool add_question(set_t *set, const interest_t *one) {
    if (one->fd == INSIDE)
        return true;
    bool is_door = one->fd == DOOR;
    if (!is_door && !connection_of_fd(one->fd))
        return false;
    if (one->reading && is_asked(set->reading, set->reading_count, one->fd))
        return is_door;
    if (one->writing && !is_door && is_asked(set->writing, set->writing_count, one->fd))
        return false;
    if (one->reading)
        set->reading[set->reading_count++] = one->fd;
    if (one->writing && !is_door)
        set->writing[set->writing_count++] = one->fd;
    return true;
}

/* `number`: of the descriptor; `file`: as the program calls it. False: it is Python's. */
static bool add_interest(set_t *set, PyObject *number, PyObject *file, bool reading, bool writing) {
    PyObject *description = PyDict_GetItemWithError(known.descriptions, number);
    if (!description || set->count == INTERESTS_MAX)
        return false;
    interest_t *one = &set->interests[set->count++];
    *one = (interest_t){.file = Py_NewRef(file), .description = Py_NewRef(description), .reading = reading, .writing = writing};
    if (!look_at(set, one) || !add_question(set, one))
        return false;
    set->is_there |= one->is_readable || one->is_writable;
    return true;
}

static PyObject *numbers_in(const int64_t *numbers, Py_ssize_t count) {
    PyObject *tuple = PyTuple_New(count);
    for (Py_ssize_t at = 0; tuple && at < count; at++) {
        PyObject *one = PyLong_FromLongLong(numbers[at]);
        if (!one)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, at, one);
    }
    return tuple;
}

static void forget_watchers(set_t *set) {
    while (set->watched)
        Py_DECREF(set->watchers[--set->watched]);
}

static void forget_set(set_t *set) {
    while (set->count) {
        interest_t *one = &set->interests[--set->count];
        Py_XDECREF(one->file);
        Py_XDECREF(one->description);
        Py_XDECREF(one->stream);
    }
    forget_watchers(set);
    Py_CLEAR(set->fds);
    Py_CLEAR(set->writing_fds);
}

static void begin_set(set_t *set) {
    set->count = set->reading_count = set->writing_count = 0;
    set->watched = 0;
    set->fds = set->writing_fds = NULL;
    set->is_there = false;
}

/* False: nothing would be asked, or there is no memory for it. */
static bool make_question(set_t *set) {
    if (!set->reading_count && !set->writing_count)
        return false;
    set->fds = numbers_in(set->reading, set->reading_count);
    set->writing_fds = numbers_in(set->writing, set->writing_count);
    return set->fds && set->writing_fds;
}

/* Whoever changes what is inside lets this thread know, as long as it waits. */
static int watch(set_t *set, PyObject *me) {
    for (int at = 0; at < set->watched; at++)
        if (PyDict_SetItem(set->watchers[at], me, Py_None) < 0)
            return -1;
    return 0;
}

static void watch_no_more(set_t *set, PyObject *me) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    for (int at = 0; at < set->watched; at++)
        if (PyDict_DelItem(set->watchers[at], me) < 0)
            PyErr_Clear(); /* it is gone already */
    PyErr_Restore(type, value, trace);
}

/* The answer: a tuple, or None: it was disturbed. NULL: an exception. */
static PyObject *ask_core(set_t *set, int64_t timeout_ns) {
    PyObject *made = choose(set->fds, set->writing_fds, timeout_ns, true, true);
    if (made && !PyTuple_CheckExact(made) && made != Py_None)
        Py_SETREF(made, PyObject_CallFunctionObjArgs(known.ask, made, set->fds, set->writing_fds, NULL));
    return made;
}

/* `is_watched`: others may run meanwhile, and change something. */
static PyObject *ask_watching(set_t *set, int64_t timeout_ns, bool is_watched) {
    if (!is_watched || !set->watched)
        return ask_core(set, timeout_ns);
    PyObject *me = PyLong_FromLongLong(number_of_this_thread()), *answer = NULL;
    if (me && watch(set, me) == 0)
        answer = ask_core(set, timeout_ns);
    if (me)
        watch_no_more(set, me);
    Py_XDECREF(me);
    return answer;
}

/* -- what is answered -------------------------------------------------------------------------------- */

/* Each thing that was looked at is as it was. */
static bool is_unchanged(set_t *set) {
    forget_watchers(set);
    for (Py_ssize_t at = 0; at < set->count; at++) {
        interest_t *one = &set->interests[at], before = *one;
        if (!look_at(set, one) || one->fd != before.fd || one->is_readable != before.is_readable ||
            one->is_writable != before.is_writable)
            return false;
    }
    return true;
}

static interest_t *interest_in(set_t *set, int64_t fd, bool reading) {
    for (Py_ssize_t at = 0; at < set->count; at++) {
        interest_t *one = &set->interests[at];
        if (one->fd == fd && (reading ? one->reading : one->writing))
            return one;
    }
    return NULL;
}

/* False: the answer is about something else than connections. */
static bool take_answer(set_t *set, PyObject *answer) {
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(answer); at++) {
        long long fd = PyLong_AsLongLong(PyTuple_GET_ITEM(answer, at));
        interest_t *one = fd == DOOR ? NULL : interest_in(set, fd < 0 ? -fd : fd, fd > 0);
        if (!one)
            return PyErr_Clear(), false;
        *(fd > 0 ? &one->is_readable : &one->is_writable) = true;
    }
    return true;
}

/* The program is told that it can read, as `Remote.promise` has it. */
static int promise(PyObject *stream) {
    PyObject *count = PyObject_GetAttr(stream, names.receiving_count);
    int receiving = count ? PyObject_IsTrue(count) : -1;
    Py_XDECREF(count);
    return receiving ? (receiving < 0 ? -1 : 0) : PyObject_SetAttr(stream, names.promised, Py_True);
}

static int promise_all(set_t *set) {
    for (Py_ssize_t at = 0; at < set->count; at++) {
        const interest_t *one = &set->interests[at];
        if (one->is_readable && one->stream && promise(one->stream) < 0)
            return -1;
    }
    return 0;
}

/* As Python has them: what, and whether it matters. */
static PyObject *interests_of(const set_t *set) {
    PyObject *list = PyList_New(set->count);
    for (Py_ssize_t at = 0; list && at < set->count; at++) {
        const interest_t *one = &set->interests[at];
        PyObject *row = Py_BuildValue("(OOO)", one->description, one->reading ? Py_True : Py_False,
                                      one->writing ? Py_True : Py_False);
        if (!row)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, at, row);
    }
    return list;
}

static PyObject *files_of(const set_t *set, Py_ssize_t from, Py_ssize_t until, bool writing) {
    PyObject *list = PyList_New(0);
    for (Py_ssize_t at = from; list && at < until; at++) {
        const interest_t *one = &set->interests[at];
        if ((writing ? one->is_writable : one->is_readable) && PyList_Append(list, one->file) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* -- time -------------------------------------------------------------------------------------------- */

/* Of seconds; None: for ever. False: it is Python's. */
static bool read_timeout(PyObject *timeout, bool may_be_negative, int64_t *timeout_ns) {
    *timeout_ns = -1;
    if (timeout == Py_None)
        return true;
    bool is_number = PyFloat_CheckExact(timeout) || PyLong_CheckExact(timeout);
    double seconds = is_number ? PyFloat_AsDouble(timeout) : NAN;
    if (PyErr_Occurred())
        PyErr_Clear();
    if (isnan(seconds) || seconds > 1e8 || (seconds < 0 && !may_be_negative))
        return false;
    if (seconds < 0)
        return true;
    *timeout_ns = (int64_t)(seconds * 1e9);
    if (!*timeout_ns && seconds)
        *timeout_ns = 1;
    return true;
}

static bool is_mine(void) { return dialogue.ident && dialogue.ident == PyThread_get_thread_ident(); }

/* Whether there are others that may run while it is waited; -1: an exception. */
static int has_company(void) {
    PyObject *found = PyObject_CallNoArgs(known.has_company);
    int answer = found ? PyObject_IsTrue(found) : -1;
    Py_XDECREF(found);
    return answer;
}

/* -- select ------------------------------------------------------------------------------------------ */

/* Its number, new; NULL: it is Python's. */
static PyObject *number_of(PyObject *file) {
    if (PyLong_CheckExact(file))
        return Py_NewRef(file);
    PyObject *number = number_of_socket(file);
    return number ? Py_NewRef(number) : NULL;
}

static bool add_files(set_t *set, PyObject *files, bool writing) {
    PyObject **items = PySequence_Fast_ITEMS(files);
    for (Py_ssize_t at = 0; at < PySequence_Fast_GET_SIZE(files); at++) {
        PyObject *number = number_of(items[at]);
        bool is_added = number && add_interest(set, number, items[at], !writing, writing);
        Py_XDECREF(number);
        if (!is_added)
            return false;
    }
    return true;
}

static bool is_plain_list(PyObject *files) { return PyList_CheckExact(files) || PyTuple_CheckExact(files); }

static PyObject *files_found(const set_t *set, Py_ssize_t reading_count) {
    PyObject *reading = files_of(set, 0, reading_count, false);
    PyObject *writing = reading ? files_of(set, reading_count, set->count, true) : NULL;
    return writing ? Py_BuildValue("(NNN)", reading, writing, PyList_New(0)) : (Py_XDECREF(reading), NULL);
}

/* As the program called them. */
static PyObject *files_in(const set_t *set) {
    PyObject *list = PyList_New(set->count);
    for (Py_ssize_t at = 0; list && at < set->count; at++)
        PyList_SET_ITEM(list, at, Py_NewRef(set->interests[at].file));
    return list;
}

/* Python goes on with the answer. */
static PyObject *select_on(const set_t *set, Py_ssize_t reading_count, PyObject *answer, int64_t timeout_ns) {
    PyObject *files = files_in(set), *interests = files ? interests_of(set) : NULL, *found = NULL;
    if (interests)
        found = PyObject_CallFunction(known.select_on, "OnOOL", files, reading_count, interests, answer, (long long)timeout_ns);
    Py_XDECREF(files);
    Py_XDECREF(interests);
    return found;
}

static PyObject *select_set(set_t *set, Py_ssize_t reading_count, int64_t timeout_ns) {
    int64_t asked_ns = set->is_there ? 0 : timeout_ns;
    int company = asked_ns ? has_company() : 0;
    PyObject *answer = company < 0 ? NULL : ask_watching(set, asked_ns, company);
    if (!answer)
        return NULL;
    PyObject *found = NULL;
    if (!PyTuple_CheckExact(answer) || !is_unchanged(set) || !take_answer(set, answer))
        found = select_on(set, reading_count, answer, timeout_ns);
    else if (promise_all(set) == 0)
        found = files_found(set, reading_count);
    Py_DECREF(answer);
    return found;
}

/* select(reading, writing, exceptional, timeout) */
static PyObject *select_files(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
    (void)module;
    int64_t timeout_ns = -1;
    set_t set;
    bool is_plain = is_mine() && !keywords && (count == 3 || count == 4) && is_plain_list(arguments[0]) &&
                    is_plain_list(arguments[1]) && is_plain_list(arguments[2]) &&
                    (count == 3 || read_timeout(arguments[3], false, &timeout_ns));
    if (!is_plain)
        return PyObject_Vectorcall(known.select, arguments, (size_t)count, keywords);
    begin_set(&set);
    PyObject *found = NULL;
    if (add_files(&set, arguments[0], false) && add_files(&set, arguments[1], true) && make_question(&set))
        found = select_set(&set, PySequence_Fast_GET_SIZE(arguments[0]), timeout_ns);
    else if (!PyErr_Occurred())
        found = PyObject_Vectorcall(known.select, arguments, (size_t)count, keywords);
    forget_set(&set);
    return found;
}

/* -- epoll ------------------------------------------------------------------------------------------- */

static long mask_of(PyObject *masks, PyObject *number) {
    PyObject *mask = PyDict_GetItemWithError(masks, number);
    int overflow = 0;
    return mask && PyLong_Check(mask) ? PyLong_AsLongAndOverflow(mask, &overflow) : 0;
}

static bool add_masks(set_t *set, PyObject *masks) {
    PyObject *number, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(masks, &at, &number, &value)) {
        int overflow = 0;
        long mask = PyLong_Check(value) ? PyLong_AsLongAndOverflow(value, &overflow) : -1;
        if (mask < 0 || overflow || mask & EPOLLONESHOT)
            return false;
        if (mask & (READABLE | WRITABLE) && !add_interest(set, number, number, mask & READABLE, mask & WRITABLE))
            return false;
    }
    return true;
}

/* With the masks as they are now: others may have changed them. */
static PyObject *events_of(const set_t *set, PyObject *masks, long most) {
    PyObject *list = PyList_New(0);
    for (Py_ssize_t at = 0; list && at < set->count && (most <= 0 || PyList_GET_SIZE(list) < most); at++) {
        const interest_t *one = &set->interests[at];
        long found = (one->is_readable ? READABLE : 0) | (one->is_writable ? WRITABLE : 0);
        long mask = found ? mask_of(masks, one->file) & found : 0;
        PyObject *event = mask ? Py_BuildValue("(Ol)", one->file, mask) : NULL;
        if (mask && (!event || PyList_Append(list, event) < 0))
            Py_CLEAR(list);
        Py_XDECREF(event);
    }
    return list;
}

/* Python goes on with the answer, as `Interests.wait` does. */
static PyObject *poll_on(const set_t *set, PyObject *interests, PyObject *version, PyObject *answer, int64_t timeout_ns, long most) {
    PyObject *rows = interests_of(set), *numbers = rows ? files_in(set) : NULL;
    PyObject *events = numbers ? PyObject_CallFunction(known.go_on, "OOOOOL", interests, numbers, rows, version, answer,
                                                       (long long)timeout_ns)
                               : NULL;
    Py_XDECREF(rows);
    Py_XDECREF(numbers);
    if (events && most > 0 && PyList_GET_SIZE(events) > most)
        Py_SETREF(events, PyList_GetSlice(events, 0, most));
    return events;
}

/* Nobody has added anything to it. */
static bool has_version(PyObject *interests, PyObject *version) {
    PyObject *now = PyObject_GetAttr(interests, names.version);
    int is_same = now ? PyObject_RichCompareBool(now, version, Py_EQ) : 0;
    Py_XDECREF(now);
    return is_same > 0;
}

static PyObject *poll_set(set_t *set, PyObject *interests, PyObject *masks, PyObject *version, int64_t timeout_ns, long most) {
    int64_t asked_ns = set->is_there ? 0 : timeout_ns;
    int company = asked_ns ? has_company() : 0;
    PyObject *answer = company < 0 ? NULL : ask_watching(set, asked_ns, company);
    if (!answer)
        return NULL;
    PyObject *events = NULL;
    if (!PyTuple_CheckExact(answer) || !has_version(interests, version) || !is_unchanged(set) || !take_answer(set, answer))
        events = poll_on(set, interests, version, answer, timeout_ns, most);
    else if (promise_all(set) == 0)
        events = events_of(set, masks, most);
    Py_DECREF(answer);
    return events;
}

static PyObject *usual_poll(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
    PyObject *all[4] = {self};
    Py_ssize_t more = keywords ? PyTuple_GET_SIZE(keywords) : 0;
    if (count + more > 3)
        return PyErr_Format(PyExc_TypeError, "too many arguments");
    for (Py_ssize_t at = 0; at < count + more; at++)
        all[at + 1] = arguments[at];
    return PyObject_Vectorcall(known.poll, all, (size_t)count + 1, keywords);
}

static bool read_most(PyObject *argument, long *most) {
    int overflow = 0;
    *most = PyLong_CheckExact(argument) ? PyLong_AsLongAndOverflow(argument, &overflow) : 0;
    return PyLong_CheckExact(argument) && !overflow;
}

static bool is_open(PyObject *self) {
    PyObject *number = PyObject_GetAttr(self, names.number);
    bool is_open = number && PyLong_CheckExact(number) && PyLong_AsLong(number) >= 0;
    Py_XDECREF(number);
    PyErr_Clear();
    return is_open;
}

/* poll(timeout, maxevents) */
static PyObject *poll_interests(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
    int64_t timeout_ns = -1;
    long most = -1;
    set_t set;
    bool is_plain = is_mine() && !keywords && count <= 2 && (count < 1 || read_timeout(arguments[0], true, &timeout_ns)) &&
                    (count < 2 || read_most(arguments[1], &most)) && is_open(self);
    PyObject *interests = is_plain ? PyObject_GetAttr(self, names.interests) : NULL;
    PyObject *masks = interests ? PyObject_GetAttr(interests, names.masks) : NULL;
    PyObject *version = masks ? PyObject_GetAttr(interests, names.version) : NULL, *events = NULL;
    if (is_plain && !version)
        PyErr_Clear();
    begin_set(&set);
    if (version && PyDict_CheckExact(masks) && add_masks(&set, masks) && keep_watchers(&set, interests) && make_question(&set))
        events = poll_set(&set, interests, masks, version, timeout_ns, most);
    else if (!PyErr_Occurred())
        events = usual_poll(self, arguments, count, keywords);
    forget_set(&set);
    Py_XDECREF(interests);
    Py_XDECREF(masks);
    Py_XDECREF(version);
    return events;
}

/* -- the program's ----------------------------------------------------------------------------------- */

static PyMethodDef of_files = {"select", (PyCFunction)(void (*)(void))select_files, METH_FASTCALL | METH_KEYWORDS,
                               "Wait until descriptors are ready."};
static PyMethodDef of_polls = {"poll", (PyCFunction)(void (*)(void))poll_interests, METH_FASTCALL | METH_KEYWORDS,
                               "Wait for events."};

static int know_names(void) {
    const struct {
        PyObject **name;
        const char *text;
    } all[] = {
        {&names.listener, "listener"}, {&names.arrivals, "arrivals"}, {&names.incoming, "incoming"},
        {&names.outgoing, "outgoing"}, {&names.data, "data"}, {&names.reader_open, "reader_open"},
        {&names.writer_open, "writer_open"}, {&names.read_ended, "read_ended"}, {&names.watchers, "watchers"},
        {&names.interests, "_interests"}, {&names.masks, "masks"}, {&names.version, "version"},
        {&names.number, "_number"}, {&names.receiving_count, "_receiving_count"}, {&names.promised, "_promised"},
    };
    for (size_t at = 0; at < sizeof all / sizeof *all; at++)
        if (!*all[at].name && !(*all[at].name = PyUnicode_InternFromString(all[at].text)))
            return -1;
    return 0;
}

/* select_for(type of sockets, of connections' streams, of pipes' ends, descriptions, those who come, has_company, ask, go_on, select_on, the
 * usual select, type of epoll objects): the select that there is from now on, and the poll of these. */
PyObject *select_for(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *epoll, *remote;
    if (!PyArg_ParseTuple(arguments, "O!O!O!O!O!OOOOOO!", &PyType_Type, &known.socket, &PyType_Type, &remote, &PyType_Type, &known.local,
                          &PyDict_Type, &known.descriptions, &PyDict_Type, &known.hall, &known.has_company, &known.ask,
                          &known.go_on, &known.select_on, &known.select, &PyType_Type, &epoll) || know_names() < 0 || know_streams(remote) < 0)
        return NULL;
    PyObject *kept[] = {(PyObject *)known.socket, (PyObject *)known.local, known.descriptions, known.hall,
                        known.has_company, known.ask, known.go_on, known.select_on, known.select};
    for (size_t at = 0; at < sizeof kept / sizeof *kept; at++)
        Py_INCREF(kept[at]); /* for ever */
    known.poll = PyObject_GetAttrString(epoll, "poll");
    PyObject *method = known.poll ? PyDescr_NewMethod((PyTypeObject *)epoll, &of_polls) : NULL;
    int failed = !method || PyObject_SetAttrString(epoll, "poll", method) < 0;
    Py_XDECREF(method);
    return failed ? NULL : PyCFunction_New(&of_files, NULL);
}
