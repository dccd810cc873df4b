/* Several threads in one dialogue: who waits for whom, and who has the token. The twin of the core's token engine
 * (`core.determinizer.token`), as far as threads wait for one another (Park, Unpark) and for the dialogue's
 * connections (Receive, Select).
 *
 *     runs        it is out, or its call waits here and nobody has been picked since
 *     asleep      it waits for another thread only
 *     parked      it waits for connections, or for a time
 *     runnable    it was unparked, or has let others run: it goes on when it is picked
 *     woken       there is something that it waits for: when it is picked it has its call made
 *     elsewhere   it waits for what is none of a dialogue's
 *
 * A thread that cannot go on gives way. If somebody is runnable or woken, a primary wakes the parked ones that have
 * something, and the first is picked; else the first of the parked ones that has something is woken, picked, and has its
 * call made for it; else the network is waited for, by the native thread that is here, while the others wait at their
 * gates. At a backup the log says who was woken, and proves, by an entry of a later pick, that somebody was picked.
 *
 * Laws:
 *
 * 1. Whenever other code may run, one thread runs: `running`. So whoever takes the dialogue back finds either a
 *    thread that is out, or the call that it waits in (`asked`), and the others where the core can have them.
 * 2. A thread waits at its gate, the driver's, and its result is where the driver would put it: whether it comes from
 *    here, or from the core when the dialogue is over, is all the same to it.
 * 3. Whoever is woken while somebody can go on comes behind it: so nobody waits for ever. After some picks the network
 *    is looked at, or it is left to the core: turns do not go on for long without such a look, and without what is due.
 * 4. Nobody is woken, stopped or picked unless somebody runs afterwards: else all is as it was (`before_t`).
 */

#include "dialogue.h"

#include <string.h>

enum {
    LEVELS_NEEDED = 300, /* as in calls.c */
    PICKS_MAX = 16,      /* without a look at the network */
    NONE_TAG = 2,        /* of the birth log */
    TRUE_TAG = 3,
    FALSE_TAG = 4,
};

static PyObject *names_of[] = {NULL, NULL, NULL};
enum { RESULT, GIVEN, IDENT };

bool has_threads(void) { return dialogue.thread_count > 1; }

static thread_t *thread_of(int64_t number) {
    for (int at = 0; at < dialogue.thread_count; at++)
        if (dialogue.threads[at].number == number)
            return &dialogue.threads[at];
    return NULL;
}

static thread_t *first_of(int state, bool (*is_meant)(const thread_t *)) {
    thread_t *first = NULL;
    for (int at = 0; at < dialogue.thread_count; at++) {
        thread_t *t = &dialogue.threads[at];
        if (t->state == state && (!first || t->place < first->place) && (!is_meant || is_meant(t)))
            first = t;
    }
    return first;
}

/* The first of those that can go on. */
static thread_t *first_runnable(void) {
    thread_t *one = first_of(RUNNABLE, NULL), *other = first_of(WOKEN, NULL);
    return !one || (other && other->place < one->place) ? other : one;
}

static bool has_something(const thread_t *t) { return is_ready(&t->asked); }

/* Of a primary's: who would be woken, if the thread that runs stopped. */
bool somebody_could_go_on(void) {
    return has_threads() && (first_runnable() || (dialogue.live && first_of(PARKED, has_something)));
}

/* No other thread is parked: nothing from outside can make one go on. */
bool is_alone(void) {
    return has_threads() ? !dialogue.parked_elsewhere && !first_of(PARKED, NULL) : dialogue.is_alone;
}

/* When the first of those is over that wait for a time. */
int64_t parked_until_ns(void) {
    int64_t until_ns = NEVER;
    for (int at = 0; at < dialogue.thread_count; at++)
        if (dialogue.threads[at].state == PARKED && dialogue.threads[at].asked.until_ns < until_ns)
            until_ns = dialogue.threads[at].asked.until_ns;
    return until_ns;
}

count_of *count_of_selects(void) {
    return has_threads() ? &dialogue.running->selects : &dialogue.generals[SELECT_COUNT];
}

count_of *count_of_selects_of(int64_t identifier) {
    for (int at = 0; at < dialogue.thread_count; at++)
        if (dialogue.threads[at].selects.identifier == identifier)
            return &dialogue.threads[at].selects;
    return NULL;
}

/* -- who waits --------------------------------------------------------------------------------------- */

static void keep(asked_t *kept, const asked_t *asked) {
    asked_t old = *kept;
    *kept = *asked;
    Py_XINCREF(kept->fds);
    Py_XINCREF(kept->writing);
    Py_XDECREF(old.fds);
    Py_XDECREF(old.writing);
}

/* The thread that runs cannot go on, or lets others, and somebody else can. */
static void stop_running(void) {
    thread_t *t = dialogue.running;
    bool sleeps = t->asked.kind == PARKS && t->asked.until_ns == NEVER;
    t->state = t->asked.kind == YIELDS ? RUNNABLE : sleeps ? ASLEEP : PARKED;
    t->place = ++dialogue.places;
    t->has_turned = true;
    dialogue.turns++;
}

static void let_run(thread_t *t) {
    dialogue.running = t;
    dialogue.thread = t->number;
    t->state = RUNS;
    t->has_turned = true;
}

static void note_birth_of(int64_t kind, uint8_t tag) {
    put_uvarint(&dialogue.births, (uint64_t)dialogue.thread);
    *grow(&dialogue.births, 1) = tag;
    *grow(&dialogue.births, 1) = (uint8_t)kind;
}

/* What it goes on with has been known since it was lent. */
static PyObject *take_result(thread_t *t) {
    PyObject *result = t->result;
    put_uvarint(&dialogue.births, (uint64_t)t->number);
    put_bytes(&dialogue.births, PyBytes_AS_STRING(t->result_told), (size_t)PyBytes_GET_SIZE(t->result_told));
    t->result = NULL;
    Py_CLEAR(t->result_told);
    return result;
}

/* The first that can go on is picked, and has its result. */
static PyObject *pick(thread_t *t, int64_t now_ns) {
    int kind = t->asked.kind;
    be_picked();
    let_run(t);
    dialogue.last_ns = now_ns;
    dialogue.picks++;
    if (t->result)
        return take_result(t);
    int64_t told = kind == PARKS ? dialogue.park_kind : kind == YIELDS ? dialogue.yield_kind : dialogue.select_kind;
    note_birth_of(told, kind == PARKS ? TRUE_TAG : NONE_TAG);
    return Py_NewRef(kind == PARKS ? Py_True : Py_None);
}

/* -- who is next ------------------------------------------------------------------------------------- */

/* What comes of a look at who can go on. GOES_ON: who runs, whoever that is now, has this result. */
typedef enum { NOBODY_YET, GOES_ON, IS_LEFT } turn_t;

static turn_t make_call(int64_t now_ns, PyObject **result) {
    outcome_t outcome;
    *result = make_waiting_call(&dialogue.running->asked, true, now_ns, &outcome);
    return *result ? GOES_ON : outcome == WAIT ? NOBODY_YET : IS_LEFT;
}

/* Who has something is woken and picked instead of who runs, and has its call made; or nothing has happened. */
static turn_t make_call_of(thread_t *woken, int64_t now_ns, PyObject **result) {
    thread_t *before = dialogue.running, was = *woken;
    int64_t places = dialogue.places, turns = dialogue.turns;
    bool had_turned = before->has_turned;
    stop_running();
    let_run(woken);
    dialogue.picks++;
    if (make_call(now_ns, result) == GOES_ON)
        return GOES_ON;
    woken->state = was.state;
    woken->place = was.place;
    woken->has_turned = was.has_turned;
    let_run(before);
    before->has_turned = had_turned;
    dialogue.places = places;
    dialogue.turns = turns; /* else it would look as if the dialogue had been worth it, for ever */
    return IS_LEFT;
}

/* All that a turn changes before it is certain that it is taken. */
typedef struct {
    thread_t threads[THREADS_MAX], *running;
    int64_t thread, places, turns, picks, pick, calls, last_ns, count;
    look_t log;
    size_t called_count, orders_size;
} before_t;

static void keep_before(before_t *before) {
    const dialogue_t *d = &dialogue;
    memcpy(before->threads, d->threads, (size_t)d->thread_count * sizeof *d->threads);
    before->running = d->running;
    before->log = look_at_log();
    before->thread = d->thread, before->places = d->places, before->turns = d->turns, before->picks = d->picks;
    before->pick = d->pick, before->calls = d->calls, before->last_ns = d->last_ns, before->count = d->count;
    before->called_count = d->called_count, before->orders_size = d->orders.size;
}

static void be_as_before(const before_t *before) {
    dialogue_t *d = &dialogue;
    memcpy(d->threads, before->threads, (size_t)d->thread_count * sizeof *d->threads);
    d->running = before->running;
    pass(&before->log);
    d->thread = before->thread, d->places = before->places, d->turns = before->turns, d->picks = before->picks;
    d->pick = before->pick, d->calls = before->calls, d->last_ns = before->last_ns, d->count = before->count;
    d->called_count = before->called_count, d->orders.size = before->orders_size;
}

/* Behind all that can go on; at a backup the log has it already, under this number. */
static void wake(thread_t *t, int64_t number, int64_t now_ns) {
    int64_t running = dialogue.thread;
    dialogue.thread = t->number;
    if (dialogue.live)
        record_wake();
    note_call(&(call_t){.kind = WOKE, .time_ns = now_ns, .number = dialogue.live ? dialogue.count : number,
                        .pick = dialogue.pick});
    dialogue.thread = running;
    t->state = WOKEN;
    t->place = ++dialogue.places;
    t->has_turned = true;
}

/* By a primary: all that have something. */
static void wake_ready(int64_t now_ns) {
    for (thread_t *t = first_of(PARKED, has_something); t; t = first_of(PARKED, has_something))
        wake(t, 0, now_ns);
}

/* By a backup: those that the log says were. */
static void wake_told(const look_t *behind, thread_t *const *woken, int count, int64_t now_ns) {
    int64_t number = dialogue.count;
    pass(behind);
    for (int at = 0; at < count; at++)
        wake(woken[at], number + at + 1, now_ns);
}

static turn_t pick_first(int64_t now_ns, PyObject **result) {
    thread_t *first = first_runnable();
    outcome_t outcome;
    if (!first)
        return IS_LEFT;
    if (first->state != WOKEN)
        return *result = pick(first, now_ns), GOES_ON;
    if (first->asked.until_ns <= now_ns || dialogue.quantum <= 1)
        return IS_LEFT; /* the network would be looked at, which cannot be undone */
    be_picked();
    let_run(first);
    dialogue.last_ns = now_ns;
    dialogue.picks++;
    *result = make_waiting_call(&first->asked, false, now_ns, &outcome);
    return *result ? GOES_ON : IS_LEFT;
}

static turn_t taken(turn_t turn, const before_t *before) {
    if (turn == IS_LEFT)
        be_as_before(before);
    return turn;
}

/* Who runs stops; whoever has something is woken, and the first that can go on is picked. */
static turn_t take_turn(int64_t now_ns, PyObject **result) {
    before_t before;
    keep_before(&before);
    stop_running();
    wake_ready(now_ns);
    return taken(pick_first(now_ns, result), &before);
}

/* The same at a backup. */
static turn_t follow_turn(const look_t *behind, thread_t *const *woken, int count, int64_t now_ns, PyObject **result) {
    before_t before;
    keep_before(&before);
    stop_running();
    if (count)
        wake_told(behind, woken, count, now_ns);
    return taken(pick_first(now_ns, result), &before);
}

/* However much is here that threads are woken for, what else comes is looked at after some turns, and what is due is
 * seen to: none of them may use up its quantum. */
static bool may_turn(int64_t now_ns, bool *has_looked) {
    *has_looked = dialogue.picks >= PICKS_MAX;
    if (!*has_looked)
        return true;
    if (!is_calm(now_ns))
        return false;
    dialogue.picks = 0;
    return true;
}

static turn_t next_live(int64_t now_ns, PyObject **result) {
    thread_t *runnable = first_runnable(), *ready;
    bool yields = dialogue.running->asked.kind == YIELDS, has_looked;
    if (!may_turn(now_ns, &has_looked))
        return IS_LEFT;
    if (runnable || yields) {
        if (is_far_ahead() || (!runnable && !has_looked && !is_calm(now_ns)))
            return IS_LEFT;
        return take_turn(now_ns, result);
    }
    ready = first_of(PARKED, has_something);
    if (ready)
        return make_call_of(ready, now_ns, result);
    return dialogue.running->asked.kind == PARKS ? NOBODY_YET : make_call(now_ns, result);
}

/* Of whom the log says that it was woken; NULL: that is the core's. */
static thread_t *woken_one(int64_t number) {
    thread_t *t = thread_of(number);
    bool waits = t && (t->state == PARKED || t == dialogue.running);
    return waits && (t->asked.kind == RECEIVES || t->asked.kind == SELECTS) ? t : NULL;
}

/* Those that the log says were woken; how many, and the entry behind. -1: it is the core's. */
static int look_for_woken(thread_t **woken, look_t *passed, entry_t *entry) {
    look_t look = look_at_log();
    for (int count = 0;; count++) {
        *passed = look;
        next_entry(&look, entry);
        if (entry->kind != WAKE || entry->pick != dialogue.pick)
            return entry->kind == OTHER || (entry->kind != NOT_YET && entry->pick < dialogue.pick) ? -1 : count;
        if (count == THREADS_MAX || !(woken[count] = woken_one(entry->thread)))
            return -1;
    }
}

static turn_t next_logged(int64_t now_ns, PyObject **result) {
    thread_t *woken[THREADS_MAX], *runnable = first_runnable();
    bool yields = dialogue.running->asked.kind == YIELDS, parks = yields || dialogue.running->asked.kind == PARKS, has_looked;
    look_t passed;
    if (!may_turn(now_ns, &has_looked))
        return IS_LEFT;
    entry_t entry;
    int count = look_for_woken(woken, &passed, &entry);
    bool is_known = entry.kind != NOT_YET, is_later = is_known && entry.pick > dialogue.pick;
    if (count < 0)
        return IS_LEFT;
    if (count && !is_known)
        return yields ? IS_LEFT : NOBODY_YET; /* a Yield does not wait for the network: it is the core's */
    if (count == 1 && !runnable && !yields)
        return woken[0] == dialogue.running ? make_call(now_ns, result) : make_call_of(woken[0], now_ns, result);
    if (count)
        return is_later ? follow_turn(&passed, woken, count, now_ns, result) : IS_LEFT;
    if (is_later || (!is_known && (runnable || yields) && parks && is_alone())) {
        if (!is_known && runnable && runnable->state == WOKEN)
            return yields ? IS_LEFT : NOBODY_YET;
        return runnable || yields ? follow_turn(&passed, woken, 0, now_ns, result) : IS_LEFT;
    }
    if (yields)
        return IS_LEFT; /* not proven yet, or somebody was woken who comes behind it */
    if (!is_known)
        return NOBODY_YET;
    return parks ? IS_LEFT : make_call(now_ns, result);
}

/* -- at the gates ------------------------------------------------------------------------------------ */

static unsigned long ident_of(PyObject *thread) {
    PyObject *ident = PyObject_GetAttr(thread, names_of[IDENT]);
    unsigned long value = ident ? PyLong_AsUnsignedLong(ident) : 0;
    Py_XDECREF(ident);
    return PyErr_Occurred() ? 0 : value;
}

/* What cannot fail: else somebody would wait for ever. Its gate is to be opened yet. */
static void give(thread_t *t, PyObject *result) {
    dialogue.ident = ident_of(t->thread);
    if (!dialogue.ident || PyObject_SetAttr(t->thread, names_of[RESULT], result) < 0)
        Py_FatalError("a thread cannot be given its result");
    Py_DECREF(result);
}

/* The other's gate is opened. Nothing of the dialogue is touched behind one's own: it may be over, and another one
 * lent. */
static PyObject *wait_at_gate(const thread_t *me, const thread_t *other) {
    PyObject *thread = Py_NewRef(me->thread), *gate = Py_NewRef(me->gate), *others = Py_NewRef(other->gate);
    PyObject *stream = begin_receiving(), *result = NULL;
    bool has_passed = open_and_wait(others, gate) == 0;
    if (has_passed && PyObject_SetAttr(thread, names_of[GIVEN], Py_False) == 0)
        result = PyObject_GetAttr(thread, names_of[RESULT]);
    Py_DECREF(others);
    Py_DECREF(gate);
    Py_DECREF(thread);
    if (end_receiving(stream) < 0)
        Py_CLEAR(result);
    Py_XDECREF(stream);
    return result;
}

PyObject *wait_in_turn(const asked_t *asked, int64_t *now_ns, outcome_t *outcome) {
    thread_t *me = dialogue.running;
    PyObject *result = NULL;
    keep(&me->asked, asked);
    for (;;) {
        turn_t turn = dialogue.live ? next_live(*now_ns, &result) : next_logged(*now_ns, &result);
        if (turn == GOES_ON && dialogue.running != me) {
            give(dialogue.running, result);
            result = wait_at_gate(me, dialogue.running);
        }
        *outcome = turn == GOES_ON ? ARRIVED : turn == IS_LEFT ? LEAVE : wait_for_network(now_ns, asked);
        if (turn != NOBODY_YET || *outcome != ARRIVED)
            return result;
        dialogue.picks = 0;
        if (is_paused(*now_ns)) {
            *outcome = LEAVE;
            return NULL;
        }
    }
}

/* -- calls ------------------------------------------------------------------------------------------- */

/* park(counted): True; None: it goes the usual way; HANDED. For as long as it takes. */
PyObject *park(PyObject *module, PyObject *counted) {
    (void)module;
    int64_t now_ns = monotonic_ns();
    int is_counted = PyObject_IsTrue(counted);
    asked_t asked = {.kind = PARKS, .timeout_ns = -1, .until_ns = NEVER};
    outcome_t outcome;
    if (!has_threads() || !is_here(now_ns) || (is_counted && !may_be_made(LEVELS_NEEDED)))
        Py_RETURN_NONE;
    PyObject *result = wait_in_turn(&asked, &now_ns, &outcome);
    if (outcome != ARRIVED)
        return Py_NewRef(outcome == HANDED ? handed : Py_None);
    if (result && is_counted && was_made() < 0)
        Py_CLEAR(result);
    return result;
}

/* Whether it was parked and can be unparked, and now can run. One that was woken might find nothing. */
static bool make_runnable(thread_t *t) {
    bool can_be = t->asked.kind == PARKS || (t->asked.kind == SELECTS && t->asked.is_interruptible);
    if (t->state == WOKEN && can_be) {
        t->state = RUNNABLE;
        return t->has_turned = true;
    }
    if ((t->state != ASLEEP && t->state != PARKED) || !can_be)
        return false;
    t->state = RUNNABLE;
    t->place = ++dialogue.places;
    t->has_turned = true;
    return true;
}

/* unpark(thread, counted), as it is if it is not said: True, False; None: it goes the usual way. */
PyObject *unpark(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    (void)module;
    int64_t now_ns = monotonic_ns();
    if (count < 1 || count > 2)
        return PyErr_Format(PyExc_TypeError, "a thread and whether it is counted expected");
    long long value = PyLong_AsLongLong(arguments[0]);
    bool is_counted = count < 2 || arguments[1] == Py_True;
    if (value == -1 && PyErr_Occurred())
        return NULL;
    thread_t *t = has_threads() ? thread_of(value) : NULL;
    /* Who was lent in the run queue keeps its place there, which only the core can see to. */
    bool is_queued = t && t->state == WOKEN && !t->has_turned;
    if (!t || t->state == ELSEWHERE || is_queued || !is_here(now_ns) || is_spent() ||
        (is_counted && !may_be_made(LEVELS_NEEDED)))
        Py_RETURN_NONE;
    bool is_unparked = make_runnable(t);
    note_birth_of(dialogue.unpark_kind, is_unparked ? TRUE_TAG : FALSE_TAG);
    spend(now_ns);
    dialogue.turns++;
    return is_counted && was_made() < 0 ? NULL : PyBool_FromLong(is_unparked);
}

/* yield_turn(counted): True: the others have run, and it is picked again; None: it goes the usual way. */
PyObject *yield_turn(PyObject *module, PyObject *counted) {
    (void)module;
    int64_t now_ns = monotonic_ns();
    int is_counted = PyObject_IsTrue(counted);
    asked_t asked = {.kind = YIELDS, .timeout_ns = -1, .until_ns = NEVER};
    outcome_t outcome;
    if (!has_threads() || !is_here(now_ns) || !may_be_made(LEVELS_NEEDED))
        Py_RETURN_NONE;
    PyObject *result = wait_in_turn(&asked, &now_ns, &outcome);
    if (outcome != ARRIVED)
        Py_RETURN_NONE;
    if (result && is_counted && was_made() < 0)
        Py_CLEAR(result);
    if (result)
        Py_SETREF(result, Py_NewRef(Py_True));
    return result;
}

/* -- lent, and taken back ---------------------------------------------------------------------------- */

void forget_threads(void) {
    for (int at = 0; at < dialogue.thread_count; at++) {
        thread_t *t = &dialogue.threads[at];
        Py_CLEAR(t->thread);
        Py_CLEAR(t->gate);
        Py_CLEAR(t->asked.fds);
        Py_CLEAR(t->asked.writing);
        Py_CLEAR(t->result);
        Py_CLEAR(t->result_told);
    }
    dialogue.thread_count = 0;
    dialogue.running = NULL;
}

/* (number, thread, gate, state, kind of its call, descriptor, limit, fds, writing, interruptible, timeout, until,
 * identifier of its selects, how many were performed, and coded, and None, or what it goes on with, and what the birth
 * log has of that) */
static int read_thread(PyObject *one) {
    thread_t *t = &dialogue.threads[dialogue.thread_count];
    long long number, fd, limit, timeout_ns, until_ns, identifier, performed, coded;
    int state, kind, is_interruptible;
    PyObject *thread, *gate, *fds, *writing, *given, *result = NULL, *told = NULL;
    if (dialogue.thread_count == THREADS_MAX || !PyTuple_Check(one) ||
        !PyArg_ParseTuple(one, "LOOiiLLO!O!pLLLLLO", &number, &thread, &gate, &state, &kind, &fd, &limit, &PyTuple_Type,
                          &fds, &PyTuple_Type, &writing, &is_interruptible, &timeout_ns, &until_ns, &identifier,
                          &performed, &coded, &given) ||
        (given != Py_None && !PyArg_ParseTuple(given, "OS", &result, &told)))
        return PyErr_Occurred() ? -1 : (PyErr_SetString(PyExc_ValueError, "too many threads"), -1);
    memset(t, 0, sizeof *t);
    t->number = number;
    t->thread = Py_NewRef(thread);
    t->gate = Py_NewRef(gate);
    t->state = state;
    t->place = ++dialogue.places;
    t->asked = (asked_t){.kind = kind, .fd = fd, .limit = limit, .is_interruptible = is_interruptible != 0,
                         .timeout_ns = timeout_ns, .until_ns = until_ns, .least_ns = timeout_ns > 0};
    if (kind == SELECTS) {
        t->asked.fds = Py_NewRef(fds);
        t->asked.writing = Py_NewRef(writing);
    }
    t->result = Py_XNewRef(result);
    t->result_told = Py_XNewRef(told);
    t->selects = (count_of){.identifier = identifier, .performed = performed, .coded = coded};
    begin_count(&t->selects);
    dialogue.thread_count++;
    if (state == RUNS)
        dialogue.running = t;
    return 0;
}

/* (kinds of Park, Unpark and Yield, how many are parked elsewhere, threads), or None: there is one thread that counts. */
int read_threads(PyObject *threads) {
    long long park_kind, unpark_kind, yield_kind, elsewhere;
    PyObject *list;
    forget_threads();
    dialogue.places = dialogue.turns = dialogue.picks = 0;
    if (!names_of[0]) {
        names_of[RESULT] = PyUnicode_InternFromString("result");
        names_of[GIVEN] = PyUnicode_InternFromString("given");
        names_of[IDENT] = PyUnicode_InternFromString("ident");
    }
    if (threads == Py_None)
        return 0;
    if (!PyArg_ParseTuple(threads, "LLLLO!", &park_kind, &unpark_kind, &yield_kind, &elsewhere, &PyList_Type, &list))
        return -1;
    dialogue.park_kind = park_kind;
    dialogue.unpark_kind = unpark_kind;
    dialogue.yield_kind = yield_kind;
    dialogue.parked_elsewhere = elsewhere;
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(list); at++)
        if (read_thread(PyList_GET_ITEM(list, at)) < 0)
            return -1;
    if (!dialogue.running || !has_threads() || dialogue.running->number != dialogue.thread) {
        PyErr_SetString(PyExc_ValueError, "whose dialogue is it?");
        return -1;
    }
    dialogue.generals[SELECT_COUNT] = (count_of){.identifier = -1}; /* each has its own */
    return 0;
}

static PyObject *call_of(const thread_t *t) {
    const asked_t *a = &t->asked;
    if (a->kind == RECEIVES)
        return Py_BuildValue("(LL)", (long long)a->fd, (long long)a->limit);
    if (a->kind == SELECTS)
        return Py_BuildValue("(OLOO)", a->fds, (long long)a->timeout_ns, a->writing,
                             a->is_interruptible ? Py_True : Py_False);
    return Py_BuildValue("(L)", (long long)a->timeout_ns);
}

/* The one behind that place that is where it was not when it was lent. */
static const thread_t *next_turned(int64_t place) {
    const thread_t *next = NULL;
    for (int at = 0; at < dialogue.thread_count; at++) {
        const thread_t *t = &dialogue.threads[at];
        if (t->has_turned && t->state != RUNS && t->place > place && (!next || t->place < next->place))
            next = t;
    }
    return next;
}

/* Who runs, and the threads that are where they were not, those that have waited longest first: number, state, kind
 * of call, what it is about, and until when. None: nothing has become of them. */
PyObject *threads_now(void) {
    if (!has_threads() || !dialogue.turns)
        Py_RETURN_NONE;
    PyObject *list = PyList_New(0);
    for (const thread_t *t = next_turned(0); list && t; t = next_turned(t->place)) {
        PyObject *one = Py_BuildValue("(LiiNL)", (long long)t->number, (int)t->state, (int)t->asked.kind, call_of(t),
                                      (long long)t->asked.until_ns);
        if (!one || PyList_Append(list, one) < 0)
            Py_CLEAR(list);
        Py_XDECREF(one);
    }
    return list ? Py_BuildValue("(LN)", (long long)dialogue.running->number, list) : NULL;
}
