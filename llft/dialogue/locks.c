/* The methods of `interpose.locks.Lock`, where nobody waits and nobody has to yield: a flag goes up or down, and what
 * is done counts. All else goes the usual way, which is Python's: waiting, handing over, an allowance that is used up,
 * errors, a stack with little room, a program that is traced. So what a program can see is the same. */

#include "dialogue.h"

enum { LEVELS_NEEDED = 64 /* as in reading_on.c */ };

static struct {
    PyTypeObject *type;
    Py_ssize_t held_at, owner_at, waiters_at;
    PyObject *acquire, *release, *locked, *enter, *leave; /* Python's way */
} locks;

static int spent, allowance, price_of_trylock;

/* Number of the program's thread that this is; 0: of none. What a thread has for an identifier otherwise is each
 * replica's own, and may be another thread's when it has ended. */
static _Thread_local int64_t me;

static PyObject **slot(PyObject *lock, Py_ssize_t at) { return (PyObject **)((char *)lock + at); }

static bool may_spend(int amount) { return spent + amount < allowance && is_plain(LEVELS_NEEDED); }

static PyObject *usual(PyObject *function, PyObject *lock, PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
    PyObject *all[8] = {lock};
    Py_ssize_t more = names ? PyTuple_GET_SIZE(names) : 0;
    if (count + more > 7)
        return PyErr_Format(PyExc_TypeError, "too many arguments");
    for (Py_ssize_t at = 0; at < count + more; at++)
        all[at + 1] = arguments[at];
    return PyObject_Vectorcall(function, all, (size_t)count + 1, names);
}

static bool is_me(PyObject *owner) {
    int overflow;
    return owner && PyLong_CheckExact(owner) && PyLong_AsLongLongAndOverflow(owner, &overflow) == me;
}

/* NULL without an exception: it goes the usual way. */
static PyObject *take(PyObject *lock, bool is_blocking) {
    if (!me)
        return NULL;
    if (*slot(lock, locks.held_at) == Py_False && is_plain(LEVELS_NEEDED)) {
        PyObject *owner = PyLong_FromLongLong(me);
        if (!owner)
            return NULL;
        Py_SETREF(*slot(lock, locks.held_at), Py_NewRef(Py_True));
        Py_XSETREF(*slot(lock, locks.owner_at), owner);
        Py_RETURN_TRUE;
    }
    if (is_blocking || *slot(lock, locks.held_at) != Py_True)
        return NULL;
    int price = is_me(*slot(lock, locks.owner_at)) ? 1 : price_of_trylock;
    if (!may_spend(price))
        return NULL;
    spent += price;
    Py_RETURN_FALSE;
}

/* Without a timeout, and blocking is a bool; that it has none may be said. */
static bool is_simple(PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
    int overflow = 0;
    if (names || count > 2 || (count && !PyBool_Check(arguments[0])))
        return false;
    return count < 2 || (PyLong_CheckExact(arguments[1]) && PyLong_AsLongAndOverflow(arguments[1], &overflow) == -1 && !overflow);
}

static PyObject *acquire(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
    PyObject *taken = is_simple(arguments, count, names) ? take(self, !count || arguments[0] == Py_True) : NULL;
    return taken || PyErr_Occurred() ? taken : usual(locks.acquire, self, arguments, count, names);
}

static PyObject *enter(PyObject *self, PyObject *none) {
    (void)none;
    PyObject *taken = take(self, true);
    return taken || PyErr_Occurred() ? taken : PyObject_CallOneArg(locks.enter, self);
}

static bool give_back(PyObject *lock) {
    PyObject *waiters = *slot(lock, locks.waiters_at);
    if (*slot(lock, locks.held_at) != Py_True || !waiters || !may_spend(1))
        return false;
    if (waiters != Py_None && PyObject_Size(waiters) != 0)
        return false;
    spent++;
    Py_SETREF(*slot(lock, locks.held_at), Py_NewRef(Py_False));
    return true;
}

static PyObject *release(PyObject *self, PyObject *none) {
    (void)none;
    return give_back(self) ? Py_NewRef(Py_None) : PyErr_Occurred() ? NULL : PyObject_CallOneArg(locks.release, self);
}

static PyObject *leave(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    return give_back(self) ? Py_NewRef(Py_None) : PyErr_Occurred() ? NULL : usual(locks.leave, self, arguments, count, NULL);
}

static PyObject *is_locked(PyObject *self, PyObject *none) {
    (void)none;
    PyObject *held = *slot(self, locks.held_at);
    if (!held || !may_spend(1))
        return PyObject_CallOneArg(locks.locked, self);
    spent++;
    return Py_NewRef(held);
}

static PyMethodDef of_locks[] = {
    {"acquire", (PyCFunction)(void (*)(void))acquire, METH_FASTCALL | METH_KEYWORDS, "Take it, or wait for it."},
    {"release", release, METH_NOARGS, "Give it back, or to whoever waits first."},
    {"locked", is_locked, METH_NOARGS, "Whether somebody has it."},
    {"__enter__", enter, METH_NOARGS, "Take it, or wait for it."},
    {"__exit__", (PyCFunction)(void (*)(void))leave, METH_FASTCALL, "Give it back."},
    {"acquire_lock", (PyCFunction)(void (*)(void))acquire, METH_FASTCALL | METH_KEYWORDS, "The same as acquire."},
    {"release_lock", release, METH_NOARGS, "The same as release."},
    {"locked_lock", is_locked, METH_NOARGS, "The same as locked."},
    {0},
};

static int replace(PyObject *type, PyMethodDef *definition, PyObject **kept) {
    PyObject *method = PyDescr_NewMethod((PyTypeObject *)type, definition);
    if (kept && !(*kept = PyObject_GetAttrString(type, definition->ml_name)))
        Py_CLEAR(method);
    int failed = !method || PyObject_SetAttrString(type, definition->ml_name, method) < 0;
    Py_XDECREF(method);
    return failed ? -1 : 0;
}

/* i_am(number): this thread, from now on. */
PyObject *i_am(PyObject *module, PyObject *number) {
    (void)module;
    long long value = PyLong_AsLongLong(number);
    if (value == -1 && PyErr_Occurred())
        return NULL;
    me = value;
    Py_RETURN_NONE;
}

int64_t number_of_this_thread(void) { return me; }

/* lock_for(type, allowance, price of a trylock): its methods are these, from now on. */
PyObject *lock_for(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject **kept[] = {&locks.acquire, &locks.release, &locks.locked, &locks.enter, &locks.leave}, *type;
    if (!PyArg_ParseTuple(arguments, "O!ii", &PyType_Type, &type, &allowance, &price_of_trylock))
        return NULL;
    if (locks.type)
        return PyErr_Format(PyExc_TypeError, "a type expected, once");
    if (place_of_slot(type, "_held", &locks.held_at) < 0 || place_of_slot(type, "_owner", &locks.owner_at) < 0 ||
        place_of_slot(type, "_waiters", &locks.waiters_at) < 0)
        return NULL;
    for (size_t at = 0; of_locks[at].ml_name; at++)
        if (replace(type, &of_locks[at], at < sizeof kept / sizeof *kept ? kept[at] : NULL) < 0)
            return NULL;
    locks.type = (PyTypeObject *)Py_NewRef(type);
    Py_RETURN_NONE;
}

/* spend(amount, allowance): whether that is used up; if so it begins anew. */
PyObject *spend_on_locks(PyObject *module, PyObject *arguments) {
    (void)module;
    int amount, most;
    if (!PyArg_ParseTuple(arguments, "ii", &amount, &most))
        return NULL;
    spent += amount;
    if (spent < most)
        Py_RETURN_FALSE;
    spent = 0;
    Py_RETURN_TRUE;
}

/* spent() */
PyObject *spent_on_locks(PyObject *module, PyObject *none) { return (void)module, (void)none, PyLong_FromLong(spent); }

/* set_spent(amount) */
PyObject *set_spent_on_locks(PyObject *module, PyObject *amount) {
    (void)module;
    long value = PyLong_AsLong(amount);
    if (value == -1 && PyErr_Occurred())
        return NULL;
    spent = (int)value;
    Py_RETURN_NONE;
}
