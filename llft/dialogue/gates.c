/* Gates: what the program's threads wait at for their results (`runtime.application_thread`).
 *
 * A gate is a lock as the interpreter has it, that is opened by whoever gives a result. Who opens one and waits at
 * another lets go of the interpreter's lock in between: else the thread that is woken runs into that at once, sleeps
 * again, and is woken once more, which is six calls of the system for each turn instead of two.
 *
 * Laws: the result is where the thread looks for it before its gate is opened; a gate is opened once for each wait. */

#include "dialogue.h"

typedef struct {
    PyObject_HEAD
    PyThread_type_lock lock;
    bool is_open;
} gate_t;

static PyObject *new_gate(PyTypeObject *type, PyObject *arguments, PyObject *names) {
    (void)arguments, (void)names;
    gate_t *gate = (gate_t *)type->tp_alloc(type, 0);
    if (gate && !(gate->lock = PyThread_allocate_lock())) {
        Py_DECREF(gate);
        return PyErr_NoMemory();
    }
    if (gate)
        PyThread_acquire_lock(gate->lock, NOWAIT_LOCK);
    return (PyObject *)gate;
}

static void forget_gate(PyObject *self) {
    gate_t *gate = (gate_t *)self;
    if (gate->lock)
        PyThread_free_lock(gate->lock);
    Py_TYPE(self)->tp_free(self);
}

/* To be opened: false if it is open already. */
static bool may_open(gate_t *gate) {
    bool may = !gate->is_open;
    gate->is_open = true;
    return may;
}

/* Handlers of signals run while a thread waits, as they do where it waits for any lock. */
static int wait_at(gate_t *mine, gate_t *opened) {
    PyLockStatus status = opened ? PY_LOCK_FAILURE : PyThread_acquire_lock_timed(mine->lock, 0, 0);
    while (status != PY_LOCK_ACQUIRED) {
        Py_BEGIN_ALLOW_THREADS
        if (opened)
            PyThread_release_lock(opened->lock);
        opened = NULL;
        status = PyThread_acquire_lock_timed(mine->lock, -1, 1);
        Py_END_ALLOW_THREADS
        if (status == PY_LOCK_INTR && Py_MakePendingCalls() < 0)
            return -1;
    }
    mine->is_open = false;
    return 0;
}

static PyObject *acquire(PyObject *self, PyObject *none) {
    (void)none;
    return wait_at((gate_t *)self, NULL) < 0 ? NULL : Py_NewRef(Py_True);
}

static PyObject *release(PyObject *self, PyObject *none) {
    (void)none;
    if (!may_open((gate_t *)self))
        return PyErr_Format(PyExc_RuntimeError, "a gate is opened that is open");
    PyThread_release_lock(((gate_t *)self)->lock);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"acquire", acquire, METH_NOARGS, "Wait until it is opened."},
    {"release", release, METH_NOARGS, "Open it, for one wait."},
    {0},
};

static PyTypeObject type_of_gates = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "llft.reading_on.Gate",
    .tp_basicsize = sizeof(gate_t),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Closed: who comes to it waits until it is opened.",
    .tp_new = new_gate,
    .tp_dealloc = forget_gate,
    .tp_methods = methods,
};

/* Any other kind of lock serves as well. */
static int called(PyObject *gate, const char *name) {
    PyObject *done = PyObject_CallMethod(gate, name, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

int open_and_wait(PyObject *others, PyObject *mine) {
    bool are_ours = Py_IS_TYPE(others, &type_of_gates) && Py_IS_TYPE(mine, &type_of_gates);
    if (are_ours ? !may_open((gate_t *)others) : called(others, "release") < 0)
        Py_FatalError("whoever is next cannot be let go on");
    return are_ours ? wait_at((gate_t *)mine, (gate_t *)others) : called(mine, "acquire");
}

int begin_gates(PyObject *module) { return PyModule_AddType(module, &type_of_gates); }
