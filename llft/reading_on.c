/* Calls that a thread of the program makes without the core, in *runs*: clock readings, random bytes, reads that
 * find nothing; in ordered mode claims and releases of mutexes.
 *
 * A run is lent by whoever holds the driver's lock (`open_live`, `open_log`), to one thread, and is taken back
 * (`close`) by whoever takes that lock next: `llft/runtime/lending.py` has the laws. In between, a call is an item
 * more in a table. Laws:
 *
 * 1. The interpreter's lock is held from the first look at the run to the last: a call is in it whole, or it is
 *    not in it, and goes its usual way.
 * 2. What is out of the ordinary goes the usual way: another thread, a clock that was set back, another call
 *    than the log has, a handler of the program's that waits to be run, a collection that is due.
 * 3. `calls` counts all calls of the program, those of the usual way too: at which of them it collects is the
 *    same at every replica, whichever ways they went.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#ifdef Py_GIL_DISABLED
#error "law 1 is the interpreter's lock"
#endif
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "dialogue/dialogue.h"

enum { LEVELS_NEEDED = 64, ITEMS_MAX = 256, RANDOM = 16, RANDOM_MAX = 256, NOTHING = 17, CLAIM = 18, RELEASE = 19 };

static struct {
    unsigned long thread; /* to whom it is lent; 0: to nobody */
    int limit, used;
    long long idle; /* at a primary: where there is nothing to be read; -1: nowhere that is known */
    PyObject *log; /* at a backup: what the calls give, by their places. At a primary there is none. */
    PyObject *held, *awaited; /* at a primary in ordered mode: dictionaries of mutexes, as they were when it was lent */
    uint8_t codes[ITEMS_MAX];
    union {
        int64_t number;
        PyObject *object;
    } items[ITEMS_MAX];
    struct {
        int64_t offset, last, local;
    } clocks[CLOCKS];
} run;

static int calls, calls_max = 1;
static PyObject *waiting; /* a list: what the main thread is to do before it goes on */
static PyObject *collector; /* makes a collection that is due, and begins to count anew; NULL: the usual way does */
static PyObject *interrupter; /* what waits, if this is the main thread; NULL: nobody adds to it in a call */

/* The usual way takes levels of the stack that a call in a run does not. Where there is not room for both, all
 * go the usual way: else a RecursionError would come at another call than at other replicas. And who traces or
 * profiles sees what it always sees. */
bool is_plain(int needed) {
    const PyThreadState *state = PyThreadState_Get();
#if PY_VERSION_HEX >= 0x030C0000
    int levels = state->py_recursion_remaining;
#else
    int levels = state->recursion_remaining;
#endif
    return levels > needed && !state->c_profilefunc && !state->c_tracefunc;
}

static bool may_be_counted(int levels) {
    return calls + 1 < calls_max && waiting && !PyList_GET_SIZE(waiting) && is_plain(levels);
}

bool may_be_made(int levels) {
    return calls + (collector ? 0 : 1) < calls_max && waiting && !PyList_GET_SIZE(waiting) && is_plain(levels);
}

/* The collection comes behind the call, as it does the usual way (`interpose.passage`), and so does what other
 * threads have asked the main one for meanwhile. */
int was_made(void) {
    PyObject *behind = ++calls < calls_max ? NULL : collector;
    if (!behind && PyList_GET_SIZE(waiting))
        behind = interrupter;
    if (!behind)
        return 0;
    PyObject *done = PyObject_CallNoArgs(behind);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static int may_call(void) {
    return run.thread && run.thread == PyThread_get_thread_ident() && run.used < run.limit &&
           may_be_counted(LEVELS_NEEDED);
}

static inline void was_called(void) {
    run.used++;
    calls++;
}

/* 1: it is read; 0: it goes the usual way; -1: an exception, of what was due behind it. */
static int read_clock(int clock_id, int64_t *value) {
    struct timespec now;
    if (dialogue.ident)
        return read_clock_in_dialogue(clock_id, value);
    if (!may_call() || clock_gettime(clock_id, &now))
        return 0;
    int64_t local = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    if (run.log) {
        if (run.codes[run.used] != clock_id)
            return 0;
        *value = PyLong_AsLongLong(PyList_GET_ITEM(run.log, run.used)); /* was tried when it was lent */
        run.clocks[clock_id].local = local;
    } else {
        if (__builtin_add_overflow(local, run.clocks[clock_id].offset, value) || *value < run.clocks[clock_id].last)
            return 0;
        run.clocks[clock_id].last = *value;
        run.codes[run.used] = (uint8_t)clock_id;
        run.items[run.used].number = *value;
    }
    was_called();
    return 1;
}

static PyObject *in_seconds(PyObject *usual, int clock_id) {
    int64_t value;
    int read = read_clock(clock_id, &value);
    if (read < 0)
        return NULL;
    return read ? PyFloat_FromDouble((double)value / 1e9) : PyObject_CallNoArgs(usual);
}

static PyObject *in_ns(PyObject *usual, int clock_id) {
    int64_t value;
    int read = read_clock(clock_id, &value);
    if (read < 0)
        return NULL;
    return read ? PyLong_FromLongLong(value) : PyObject_CallNoArgs(usual);
}

#define CLOCK(name, clock_id)                                                                                     \
    static PyObject *read_##name(PyObject *usual, PyObject *none) { return (void)none, in_seconds(usual, clock_id); } \
    static PyObject *read_##name##_ns(PyObject *usual, PyObject *none) { return (void)none, in_ns(usual, clock_id); }

CLOCK(time, 0)
CLOCK(monotonic, 1)
CLOCK(perf_counter, 1)
CLOCK(process_time, 2)
CLOCK(thread_time, 2)

/* None: not here. */
static PyObject *reading(PyObject *module, PyObject *argument) {
    (void)module;
    int64_t value;
    long clock_id = PyLong_AsLong(argument);
    if (clock_id == -1 && PyErr_Occurred())
        return NULL;
    int read = clock_id >= 0 && clock_id < CLOCKS ? read_clock((int)clock_id, &value) : 0;
    if (read < 0)
        return NULL;
    if (!read)
        Py_RETURN_NONE;
    return PyLong_FromLongLong(value);
}

/* A read of this descriptor that does not wait: whether there is nothing. False: it goes the usual way. */
static PyObject *nothing(PyObject *module, PyObject *argument) {
    (void)module;
    int overflow;
    long long fd = PyLong_AsLongLongAndOverflow(argument, &overflow);
    if (fd == -1 && PyErr_Occurred())
        return NULL;
    if (fd < 0 || !may_call())
        Py_RETURN_FALSE;
    if (run.log) {
        if (run.codes[run.used] != NOTHING || PyLong_AsLongLong(PyList_GET_ITEM(run.log, run.used)) != fd)
            Py_RETURN_FALSE;
    } else {
        if (fd != run.idle)
            Py_RETURN_FALSE;
        run.codes[run.used] = NOTHING;
        run.items[run.used].number = fd;
    }
    was_called();
    Py_RETURN_TRUE;
}

/* -- mutexes, in ordered mode ------------------------------------------------------------------------ */

/* No collection is made behind a claim or a release (`interpose.passage`), however many calls there were. */
static int may_lock(void) {
    return run.thread && run.thread == PyThread_get_thread_ident() && run.used < run.limit && waiting &&
           !PyList_GET_SIZE(waiting) && is_plain(LEVELS_NEEDED);
}

static int is_held(PyObject *number, int64_t mutex) {
    for (int at = run.used - 1; at >= 0; at--)
        if (run.codes[at] >= CLAIM && run.items[at].number == mutex)
            return run.codes[at] == CLAIM;
    return PyDict_Contains(run.held, number);
}

/* At a primary: whether its turn is now, and nobody waits for it; -1: an exception. */
static int is_plain_lock(PyObject *number, int64_t mutex, int code) {
    if (!run.held)
        return 0;
    int held = is_held(number, mutex), awaited = PyDict_Contains(run.awaited, number);
    if (held < 0 || awaited < 0)
        return -1;
    return !awaited && held == (code == RELEASE);
}

/* Whether it is done. False: it goes the usual way. */
static PyObject *lock(PyObject *number, int code) {
    int overflow, is_made;
    long long mutex = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (mutex == -1 && PyErr_Occurred())
        return NULL;
    if (mutex < 0 || !may_lock())
        Py_RETURN_FALSE;
    if (run.log)
        is_made = run.codes[run.used] == code && PyLong_AsLongLong(PyList_GET_ITEM(run.log, run.used)) == mutex;
    else
        is_made = is_plain_lock(number, mutex, code);
    if (is_made < 0)
        return NULL;
    if (!is_made)
        Py_RETURN_FALSE;
    if (!run.log) {
        run.codes[run.used] = (uint8_t)code;
        run.items[run.used].number = mutex;
    }
    was_called();
    Py_RETURN_TRUE;
}

static PyObject *claim(PyObject *module, PyObject *number) { return (void)module, lock(number, CLAIM); }

static PyObject *release(PyObject *module, PyObject *number) { return (void)module, lock(number, RELEASE); }

/* -- random bytes ------------------------------------------------------------------------------------ */

static PyObject *drawn_at_backup(Py_ssize_t size) {
    PyObject *data = PyList_GET_ITEM(run.log, run.used);
    if (run.codes[run.used] != RANDOM || !PyBytes_CheckExact(data) || PyBytes_GET_SIZE(data) != size)
        return NULL;
    return Py_NewRef(data);
}

/* Where the kernel has none at once, the usual way waits for it. */
static PyObject *drawn_at_primary(Py_ssize_t size) {
    PyObject *data = PyBytes_FromStringAndSize(NULL, size);
    if (!data || getrandom(PyBytes_AS_STRING(data), (size_t)size, GRND_NONBLOCK) != size) {
        PyErr_Clear();
        Py_XDECREF(data);
        return NULL;
    }
    run.codes[run.used] = RANDOM;
    run.items[run.used].object = Py_NewRef(data);
    return data;
}

static PyObject *urandom(PyObject *usual, PyObject *argument) {
    int overflow = 0;
    long long size = PyLong_CheckExact(argument) ? PyLong_AsLongLongAndOverflow(argument, &overflow) : 0;
    PyObject *data = NULL;
    if (overflow || size <= 0 || size > RANDOM_MAX)
        return PyObject_CallOneArg(usual, argument);
    if (dialogue.ident) {
        data = draw_in_dialogue((Py_ssize_t)size);
    } else if (may_call()) {
        data = run.log ? drawn_at_backup((Py_ssize_t)size) : drawn_at_primary((Py_ssize_t)size);
        if (data)
            was_called();
    }
    return data || PyErr_Occurred() ? data : PyObject_CallOneArg(usual, argument);
}

static PyMethodDef of_time[] = {
    {"time", read_time, METH_NOARGS, "The group's time in seconds since the Epoch."},
    {"time_ns", read_time_ns, METH_NOARGS, "The same in nanoseconds."},
    {"monotonic", read_monotonic, METH_NOARGS, "The group's monotonic clock in seconds."},
    {"monotonic_ns", read_monotonic_ns, METH_NOARGS, "The same in nanoseconds."},
    {"perf_counter", read_perf_counter, METH_NOARGS, "The group's monotonic clock in seconds."},
    {"perf_counter_ns", read_perf_counter_ns, METH_NOARGS, "The same in nanoseconds."},
    {"process_time", read_process_time, METH_NOARGS, "The processor time of the group's processes in seconds."},
    {"process_time_ns", read_process_time_ns, METH_NOARGS, "The same in nanoseconds."},
    {"thread_time", read_thread_time, METH_NOARGS, "The processor time of the group's processes in seconds."},
    {"thread_time_ns", read_thread_time_ns, METH_NOARGS, "The same in nanoseconds."},
    {0},
};
static PyMethodDef of_posix[] = {{"urandom", urandom, METH_O, "Bytes that every replica gets alike."}, {0}};

/* A function of that name: what it cannot do in a run it does the usual way. */
static PyObject *function(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    (void)module;
    if (count != 2 || !PyUnicode_Check(arguments[0]) || !PyCallable_Check(arguments[1]))
        return PyErr_Format(PyExc_TypeError, "a name and a function expected");
    PyMethodDef *tables[] = {of_time, of_posix};
    const char *names[] = {"time", "posix"};
    for (int at = 0; at < 2; at++)
        for (PyMethodDef *method = tables[at]; method->ml_name; method++)
            if (PyUnicode_CompareWithASCIIString(arguments[0], method->ml_name) == 0) {
                PyObject *name = PyUnicode_FromString(names[at]), *made = NULL;
                if (name)
                    made = PyCFunction_NewEx(method, arguments[1], name);
                Py_XDECREF(name);
                return made;
            }
    return PyErr_Format(PyExc_ValueError, "no function of that name: %R", arguments[0]);
}

static void forget(void) {
    if (!run.log)
        for (int at = 0; at < run.used; at++)
            if (run.codes[at] == RANDOM)
                Py_DECREF(run.items[at].object);
    run.thread = 0;
    run.limit = run.used = 0;
    Py_CLEAR(run.log);
    Py_CLEAR(run.held);
    Py_CLEAR(run.awaited);
}

/* Calls that nobody was told of would be lost. */
static int is_free(void) {
    if (run.used)
        PyErr_SetString(PyExc_RuntimeError, "a run is lent, and was used");
    return !run.used;
}

static PyObject *open_live(PyObject *module, PyObject *arguments) {
    (void)module;
    unsigned long thread;
    int limit;
    long long offsets[CLOCKS], lasts[CLOCKS], idle;
    PyObject *held = NULL, *awaited = NULL;
    if (!PyArg_ParseTuple(arguments, "ki(LLLLLL)L|O!O!", &thread, &limit, &offsets[0], &lasts[0], &offsets[1],
                          &lasts[1], &offsets[2], &lasts[2], &idle, &PyDict_Type, &held, &PyDict_Type, &awaited))
        return NULL;
    if (!is_free())
        return NULL;
    forget();
    run.idle = idle;
    if (awaited) {
        run.held = Py_NewRef(held);
        run.awaited = Py_NewRef(awaited);
    }
    for (int at = 0; at < CLOCKS; at++) {
        run.clocks[at].offset = offsets[at];
        run.clocks[at].last = lasts[at];
    }
    run.limit = limit < ITEMS_MAX ? limit : ITEMS_MAX;
    run.thread = thread;
    Py_RETURN_NONE;
}

static PyObject *open_log(PyObject *module, PyObject *arguments) {
    (void)module;
    unsigned long thread;
    Py_buffer codes;
    PyObject *values;
    if (!PyArg_ParseTuple(arguments, "ky*O!", &thread, &codes, &PyList_Type, &values))
        return NULL;
    if (!is_free()) {
        PyBuffer_Release(&codes);
        return NULL;
    }
    int count = (int)(codes.len < ITEMS_MAX ? codes.len : ITEMS_MAX), sound = PyList_GET_SIZE(values) == codes.len;
    forget();
    for (int at = 0; sound && at < count; at++) {
        PyObject *value = PyList_GET_ITEM(values, at);
        run.codes[at] = ((uint8_t *)codes.buf)[at];
        if (run.codes[at] != RANDOM)
            sound = PyLong_Check(value) && (PyLong_AsLongLong(value) != -1 || !PyErr_Occurred());
    }
    PyBuffer_Release(&codes);
    if (!sound)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "as many values as codes expected");
    run.log = Py_NewRef(values);
    run.limit = count;
    run.thread = thread;
    Py_RETURN_NONE;
}

static PyObject *is_open(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    return PyBool_FromLong(run.thread != 0 || dialogue.ident != 0);
}

static PyObject *items_made(int used) {
    PyObject *values = PyList_New(used);
    for (int at = 0; values && at < used; at++) {
        PyObject *value = run.codes[at] == RANDOM ? Py_NewRef(run.items[at].object)
                                                  : PyLong_FromLongLong(run.items[at].number);
        if (!value)
            Py_CLEAR(values);
        else
            PyList_SET_ITEM(values, at, value);
    }
    return values;
}

/* What was called: codes, what the calls gave, and when the local clocks were read last. None: nothing was. */
static PyObject *close_run(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    PyObject *result = NULL;
    int used = run.used;
    run.thread = 0; /* whatever is run by what follows makes its calls the usual way */
    if (!used) {
        forget();
        Py_RETURN_NONE;
    }
    PyObject *values = run.log ? PyList_GetSlice(run.log, 0, used) : items_made(used);
    if (values)
        result = Py_BuildValue("y#N(LLL)", (char *)run.codes, (Py_ssize_t)used, values,
                               (long long)run.clocks[0].local, (long long)run.clocks[1].local,
                               (long long)run.clocks[2].local);
    forget();
    return result;
}

static PyObject *begin(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *list;
    int most;
    if (!PyArg_ParseTuple(arguments, "O!i", &PyList_Type, &list, &most))
        return NULL;
    Py_XSETREF(waiting, Py_NewRef(list));
    calls_max = most;
    Py_RETURN_NONE;
}

/* collect_with(function) */
static PyObject *collect_with(PyObject *module, PyObject *function) {
    (void)module;
    Py_XSETREF(collector, Py_NewRef(function));
    Py_RETURN_NONE;
}

/* interrupt_with(function) */
static PyObject *interrupt_with(PyObject *module, PyObject *function) {
    (void)module;
    Py_XSETREF(interrupter, Py_NewRef(function));
    Py_RETURN_NONE;
}

static PyObject *called(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    return PyBool_FromLong(++calls >= calls_max);
}

static PyObject *get_calls(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    return PyLong_FromLong(calls);
}

static PyObject *set_calls(PyObject *module, PyObject *count) {
    (void)module;
    long value = PyLong_AsLong(count);
    if (value == -1 && PyErr_Occurred())
        return NULL;
    calls = (int)value;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"function", (PyCFunction)(void (*)(void))function, METH_FASTCALL, "A function of the program's, by its name."},
    {"reading", reading, METH_O, "A reading of this clock, or None: it goes the usual way."},
    {"nothing", nothing, METH_O, "Whether a read of this descriptor finds nothing; False: it goes the usual way."},
    {"claim", claim, METH_O, "Claim a mutex; False: it goes the usual way."},
    {"release", release, METH_O, "Release a mutex; False: it goes the usual way."},
    {"open_live", open_live, METH_VARARGS, "Lend a thread so many calls, at a primary."},
    {"open_log", open_log, METH_VARARGS, "Lend a thread what the log says of its next calls."},
    {"is_open", is_open, METH_NOARGS, "Whether a run is lent."},
    {"close", close_run, METH_NOARGS, "Take it back: what was called."},
    {"collect_with", collect_with, METH_O, "What makes a collection that is due behind a call of a dialogue."},
    {"interrupt_with", interrupt_with, METH_O, "What does what the main thread was asked for meanwhile."},
    {"begin", begin, METH_VARARGS, "What must be empty, and how many calls are between two collections."},
    {"called", called, METH_NOARGS, "A call the usual way: whether a collection is due."},
    {"calls", get_calls, METH_NOARGS, "Since the last collection."},
    {"set_calls", set_calls, METH_O, "So many since the last collection."},
    {"i_am", i_am, METH_O, "Which of the program's threads this is; 0: none."},
    {"lock_for", lock_for, METH_VARARGS, "The methods of a type of locks are ours, where nobody waits."},
    {"spend", spend_on_locks, METH_VARARGS, "Something was done with a lock: whether the allowance is used up."},
    {"spent", spent_on_locks, METH_NOARGS, "So much of the allowance."},
    {"set_spent", set_spent_on_locks, METH_O, "So much of the allowance."},
    {0},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "llft.reading_on", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_reading_on(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module && begin_dialogues(module) < 0)
        Py_CLEAR(module);
    return module;
}
