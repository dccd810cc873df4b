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
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>
#include <sys/random.h>
#include <time.h>

#include "dialogue/dialogue.h"

enum { LEVELS_NEEDED = 64, ITEMS_MAX = 256, RANDOM = 16, RANDOM_MAX = 256, NOTHING = 17, CLAIM = 18, RELEASE = 19 };

/* Claims and releases of one mutex that follow one another, in turns, are one item: with the code of the first
 * of them, and their number as its size. Every other call is an item of its own. */
static struct {
    unsigned long thread; /* to whom it is lent; 0: to nobody */
    int limit, made;      /* calls */
    int items, at;        /* at a backup: of the log, and the item whose turn it is; at a primary: room, and how many there are */
    int done;             /* at a backup: so many of that item's calls */
    bool has_locks;
    long long idle; /* at a primary: where there is nothing to be read; -1: nowhere that is known */
    PyObject *log; /* at a backup: what the calls give, by their places. At a primary there is none. */
    PyObject *held, *awaited; /* at a primary in ordered mode: dictionaries of mutexes, as they were when it was lent */
    uint8_t codes[ITEMS_MAX];
    int sizes[ITEMS_MAX];
    union {
        int64_t number;
        PyObject *object;
    } values[ITEMS_MAX];
    struct {
        int64_t offset, last, local;
    } clocks[CLOCKS];
} run;

static int calls, calls_max = 1;
static PyObject *waiting; /* a list: what the main thread is to do before it goes on */
static PyObject *collector; /* makes a collection that is due, and begins to count anew; NULL: the usual way does */
static PyObject *resumer; /* waits for what the core gives for a call that it was handed */
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

/* The core has the call: what it gives. */
static PyObject *resume_call(void) {
    return resumer ? PyObject_CallNoArgs(resumer) : PyErr_Format(PyExc_RuntimeError, "nobody waits for the core");
}

static int resumed_reading(int64_t *value) {
    PyObject *result = resume_call();
    *value = result ? PyLong_AsLongLong(result) : -1;
    Py_XDECREF(result);
    return PyErr_Occurred() ? -1 : 1;
}

static inline bool is_lent_here(void) {
    return run.thread && run.thread == PyThread_get_thread_ident() && run.made < run.limit;
}

static int may_call(void) {
    return is_lent_here() && run.at < run.items && may_be_counted(LEVELS_NEEDED);
}

/* An item of one call. */
static inline void was_called(void) {
    run.sizes[run.at++] = 1;
    run.made++;
    calls++;
}

/* 1: it is read; 0: it goes the usual way; -1: an exception, of what was due behind it. */
static int read_clock(int clock_id, int64_t *value) {
    struct timespec now;
    if (dialogue.ident) {
        int read = read_clock_in_dialogue(clock_id, value, true);
        return read == READ_BY_CORE ? resumed_reading(value) : read;
    }
    if (!may_call() || clock_gettime(clock_id, &now))
        return 0;
    int64_t local = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    if (run.log) {
        if (run.codes[run.at] != clock_id)
            return 0;
        *value = run.values[run.at].number;
        run.clocks[clock_id].local = local;
    } else {
        if (__builtin_add_overflow(local, run.clocks[clock_id].offset, value) || *value < run.clocks[clock_id].last)
            return 0;
        run.clocks[clock_id].last = *value;
        run.codes[run.at] = (uint8_t)clock_id;
        run.values[run.at].number = *value;
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
        if (run.codes[run.at] != NOTHING || run.values[run.at].number != fd)
            Py_RETURN_FALSE;
    } else {
        if (fd != run.idle)
            Py_RETURN_FALSE;
        run.codes[run.at] = NOTHING;
        run.values[run.at].number = fd;
    }
    was_called();
    Py_RETURN_TRUE;
}

/* -- mutexes, in ordered mode ------------------------------------------------------------------------ */

/* No collection is made behind a claim or a release (`interpose.passage`), however many calls there were. */
static int may_lock(void) {
    return is_lent_here() && waiting && !PyList_GET_SIZE(waiting) && is_plain(LEVELS_NEEDED);
}

/* What comes behind so many of an item's calls. */
static inline int code_behind(int code, int size) {
    return size % 2 ? CLAIM + RELEASE - code : code;
}

static int is_held(PyObject *number, int64_t mutex) {
    for (int at = run.at - 1; at >= 0; at--)
        if (run.codes[at] >= CLAIM && run.values[at].number == mutex)
            return code_behind(run.codes[at], run.sizes[at]) == RELEASE;
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

/* 1: it is done; 0: it goes the usual way; -1: an exception. */
static int lock_in_log(int64_t mutex, int code) {
    if (run.at >= run.items || run.values[run.at].number != mutex ||
        run.codes[run.at] < CLAIM || code_behind(run.codes[run.at], run.done) != code)
        return 0;
    if (++run.done == run.sizes[run.at]) {
        run.at++;
        run.done = 0;
    }
    return 1;
}

static int lock_live(PyObject *number, int64_t mutex, int code) {
    int last = run.at - 1;
    if (last >= 0 && run.codes[last] >= CLAIM && run.values[last].number == mutex) {
        if (code_behind(run.codes[last], run.sizes[last]) != code)
            return 0;
        run.sizes[last]++;
        return 1;
    }
    int is_plain_one = run.at < run.items ? is_plain_lock(number, mutex, code) : 0;
    if (is_plain_one > 0) {
        run.codes[run.at] = (uint8_t)code;
        run.values[run.at].number = mutex;
        run.sizes[run.at++] = 1;
        run.has_locks = true;
    }
    return is_plain_one;
}

static inline int lock_number(PyObject *number, int64_t mutex, int code) {
    if (!may_lock())
        return 0;
    int is_made = run.log ? lock_in_log(mutex, code) : lock_live(number, mutex, code);
    if (is_made > 0) {
        run.made++;
        calls++;
    }
    return is_made;
}

/* What the program has of a mutex: claims and releases without arguments need no frame of Python's in a run.
 * All others are methods of the class that is made of this one (`interpose.ordered_locks`). */
typedef struct {
    PyObject_HEAD
    PyObject *number;
} mutex_object;

static PyObject *usual_acquire, *usual_release; /* names */

static void mutex_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((mutex_object *)self)->number);
    type->tp_free(self);
    Py_DECREF(type);
}

/* 1: done; 0: the usual way. */
static int lock_object(PyObject *self, int code) {
    PyObject *number = ((mutex_object *)self)->number;
    int overflow;
    if (!run.thread || !number || !PyLong_CheckExact(number))
        return 0;
    long long mutex = PyLong_AsLongLongAndOverflow(number, &overflow);
    return mutex < 0 ? 0 : lock_number(number, mutex, code);
}

static PyObject *mutex_acquire(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
    bool is_plain_one = !names && (!count || (count == 1 && arguments[0] == Py_True));
    int done = is_plain_one ? lock_object(self, CLAIM) : 0;
    if (done)
        return done < 0 ? NULL : Py_NewRef(Py_True);
    PyObject *method = PyObject_GetAttr(self, usual_acquire), *result = NULL;
    if (method)
        result = PyObject_Vectorcall(method, arguments, (size_t)count, names);
    Py_XDECREF(method);
    return result;
}

static PyObject *mutex_release(PyObject *self, PyObject *none) {
    (void)none;
    int done = lock_object(self, RELEASE);
    if (done)
        return done < 0 ? NULL : Py_NewRef(Py_None);
    return PyObject_CallMethodNoArgs(self, usual_release);
}

static PyObject *mutex_enter(PyObject *self, PyObject *none) { return (void)none, mutex_acquire(self, NULL, 0, NULL); }

static PyObject *mutex_exit(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    (void)arguments, (void)count;
    return mutex_release(self, NULL);
}

#define ACQUIRE(name) {name, (PyCFunction)(void (*)(void))mutex_acquire, METH_FASTCALL | METH_KEYWORDS, "Claim it."}
#define LET_GO(name) {name, mutex_release, METH_NOARGS, "Release it."}
static PyMethodDef mutex_methods[] = {
    ACQUIRE("acquire"), ACQUIRE("acquire_lock"), LET_GO("release"), LET_GO("release_lock"),
    {"__enter__", mutex_enter, METH_NOARGS, "Claim it."},
    {"__exit__", (PyCFunction)(void (*)(void))mutex_exit, METH_FASTCALL, "Release it."},
    {0},
};
static PyMemberDef mutex_members[] = {{"_mutex", T_OBJECT_EX, offsetof(mutex_object, number), 0, "Its number."}, {0}};
static PyType_Slot mutex_slots[] = {
    {Py_tp_dealloc, mutex_dealloc}, {Py_tp_methods, mutex_methods}, {Py_tp_members, mutex_members}, {0},
};
static PyType_Spec mutex_spec = {
    .name = "llft.reading_on.Mutex",
    .basicsize = sizeof(mutex_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = mutex_slots,
};

static int add_mutex(PyObject *module) {
    usual_acquire = PyUnicode_InternFromString("_acquire");
    usual_release = PyUnicode_InternFromString("_release");
    PyObject *type = usual_acquire && usual_release ? PyType_FromSpec(&mutex_spec) : NULL;
    int failed = !type || PyModule_AddObjectRef(module, "Mutex", type);
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

/* -- random bytes ------------------------------------------------------------------------------------ */

static PyObject *drawn_at_backup(Py_ssize_t size) {
    PyObject *data = PyList_GET_ITEM(run.log, run.at);
    if (run.codes[run.at] != RANDOM || !PyBytes_CheckExact(data) || PyBytes_GET_SIZE(data) != size)
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
    run.codes[run.at] = RANDOM;
    run.values[run.at].object = Py_NewRef(data);
    return data;
}

static PyObject *urandom(PyObject *usual, PyObject *argument) {
    int overflow = 0;
    long long size = PyLong_CheckExact(argument) ? PyLong_AsLongLongAndOverflow(argument, &overflow) : 0;
    PyObject *data = NULL;
    if (overflow || size <= 0 || size > RANDOM_MAX)
        return PyObject_CallOneArg(usual, argument);
    if (dialogue.ident) {
        data = draw_in_dialogue((Py_ssize_t)size, true);
        if (data == handed)
            Py_SETREF(data, resume_call());
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
        for (int at = 0; at < run.at; at++)
            if (run.codes[at] == RANDOM)
                Py_DECREF(run.values[at].object);
    run.thread = 0;
    run.limit = run.made = run.items = run.at = run.done = 0;
    run.has_locks = false;
    Py_CLEAR(run.log);
    Py_CLEAR(run.held);
    Py_CLEAR(run.awaited);
}

/* Calls that nobody was told of would be lost. */
static int is_free(void) {
    if (run.made)
        PyErr_SetString(PyExc_RuntimeError, "a run is lent, and was used");
    return !run.made;
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
    run.limit = limit;
    run.items = ITEMS_MAX;
    run.thread = thread;
    Py_RETURN_NONE;
}

static int read_item(int at, PyObject *value, PyObject *size) {
    long calls_of_it = size ? PyLong_AsLong(size) : 1;
    if (calls_of_it < 1 || calls_of_it > INT_MAX - run.limit || (calls_of_it > 1 && run.codes[at] < CLAIM))
        return 0;
    run.sizes[at] = (int)calls_of_it;
    run.limit += (int)calls_of_it;
    if (run.codes[at] == RANDOM)
        return 1;
    run.values[at].number = PyLong_Check(value) ? PyLong_AsLongLong(value) : -1;
    return PyLong_Check(value) && !PyErr_Occurred();
}

static int read_log(const Py_buffer *codes, PyObject *values, PyObject *sizes) {
    if (PyList_GET_SIZE(values) != codes->len || (sizes && PyList_GET_SIZE(sizes) != codes->len))
        return 0;
    forget();
    int items = (int)(codes->len < ITEMS_MAX ? codes->len : ITEMS_MAX);
    for (int at = 0; at < items; at++) {
        run.codes[at] = ((uint8_t *)codes->buf)[at];
        run.has_locks |= run.codes[at] >= CLAIM;
        if (!read_item(at, PyList_GET_ITEM(values, at), sizes ? PyList_GET_ITEM(sizes, at) : NULL))
            return 0;
    }
    run.items = items;
    return 1;
}

static PyObject *open_log(PyObject *module, PyObject *arguments) {
    (void)module;
    unsigned long thread;
    Py_buffer codes;
    PyObject *values, *sizes = NULL;
    if (!PyArg_ParseTuple(arguments, "ky*O!|O!", &thread, &codes, &PyList_Type, &values, &PyList_Type, &sizes))
        return NULL;
    int sound = is_free() && read_log(&codes, values, sizes && PyList_GET_SIZE(sizes) ? sizes : NULL);
    PyBuffer_Release(&codes);
    if (!sound)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "as many values and sizes as codes expected");
    run.log = Py_NewRef(values);
    run.thread = thread;
    Py_RETURN_NONE;
}

static PyObject *is_open(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    return PyBool_FromLong(run.thread != 0 || dialogue.ident != 0);
}

static PyObject *values_made(int items) {
    PyObject *values = PyList_New(items);
    for (int at = 0; values && at < items; at++) {
        PyObject *value = run.codes[at] == RANDOM ? Py_NewRef(run.values[at].object)
                                                  : PyLong_FromLongLong(run.values[at].number);
        if (!value)
            Py_CLEAR(values);
        else
            PyList_SET_ITEM(values, at, value);
    }
    return values;
}

/* Of how many calls each item is; none where each is of one. */
static PyObject *sizes_made(int items) {
    PyObject *sizes = PyList_New(run.has_locks ? items : 0);
    for (int at = 0; sizes && run.has_locks && at < items; at++) {
        PyObject *size = PyLong_FromLong(run.sizes[at]);
        if (!size)
            Py_CLEAR(sizes);
        else
            PyList_SET_ITEM(sizes, at, size);
    }
    return sizes;
}

/* What was called: codes, what the calls gave, when the local clocks were read last, and sizes. None: nothing was. */
static PyObject *close_run(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    PyObject *result = NULL;
    run.thread = 0; /* whatever is run by what follows makes its calls the usual way */
    if (!run.made) {
        forget();
        Py_RETURN_NONE;
    }
    int items = run.at;
    if (run.done)
        run.sizes[items++] = run.done;
    PyObject *values = run.log ? PyList_GetSlice(run.log, 0, items) : values_made(items), *sizes = sizes_made(items);
    if (values && sizes)
        result = Py_BuildValue("y#O(LLL)O", (char *)run.codes, (Py_ssize_t)items, values,
                               (long long)run.clocks[0].local, (long long)run.clocks[1].local,
                               (long long)run.clocks[2].local, sizes);
    Py_XDECREF(values);
    Py_XDECREF(sizes);
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

/* resume_with(function) */
static PyObject *resume_with(PyObject *module, PyObject *function) {
    (void)module;
    Py_XSETREF(resumer, Py_NewRef(function));
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
    {"open_live", open_live, METH_VARARGS, "Lend a thread so many calls, at a primary."},
    {"open_log", open_log, METH_VARARGS, "Lend a thread what the log says of its next calls."},
    {"is_open", is_open, METH_NOARGS, "Whether a run is lent."},
    {"close", close_run, METH_NOARGS, "Take it back: what was called."},
    {"collect_with", collect_with, METH_O, "What makes a collection that is due behind a call of a dialogue."},
    {"interrupt_with", interrupt_with, METH_O, "What does what the main thread was asked for meanwhile."},
    {"resume_with", resume_with, METH_O, "What waits for a call that the core was handed."},
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
    if (module && (begin_dialogues(module) < 0 || add_mutex(module) < 0))
        Py_CLEAR(module);
    return module;
}
