/* The output commit in a dialogue (D-75): a primary asks one backup whether it holds what a reply waits for, with
 * the reply, and hears that it does; a backup hears the question, and says so to the primary and to the groups that
 * wait. The twin of `core.asking` and `core.holding`.
 *
 * Laws: one question is under way at a time; what does not fit into one datagram, what is overdue, and what a
 * backup cannot tell to be here is the core's, before anything has happened or with the question (`wanted_end`).
 */

#include "dialogue.h"

#include <string.h>

enum {
    TO_GROUP = 0,
    TO_PROCESS = 2,
    ONE_ANSWERS = 128,
    COMMITS = 1024,
    BIRTH_BYTES = 16,
    ENTRIES_BYTES = 64, /* of one call, at the most */
};

typedef struct __attribute__((packed)) {
    uint8_t sender[BIRTH_BYTES];
    uint64_t end;
} held_t;

/* -- at a primary ------------------------------------------------------------------------------------ */

static bool is_under_way(void) { return dialogue.order_committed < dialogue.fellow.end; }

int64_t answer_due_ns(void) {
    const fellow_t *f = &dialogue.fellow;
    return f->is_lent && dialogue.live && is_under_way() ? f->asked_ns + f->patience_ns : NEVER;
}

static int64_t untold_from(void) {
    const fellow_t *f = &dialogue.fellow;
    return f->behind > f->told_end ? f->behind : f->told_end;
}

/* All that somebody may have to be told, with `more` bytes, goes with one datagram each. */
static bool can_be_told(int64_t more) {
    const fellow_t *f = &dialogue.fellow;
    int64_t end = order_end() + more, first = f->before_base;
    if (f->held < first || end - f->held > f->room)
        return false;
    return !f->has_others || (untold_from() >= first && end - untold_from() <= f->room);
}

static bool is_waited_for(const connection_t *c) {
    return dialogue.fellow.is_lent && !dialogue.commits_as_it_leaves && dialogue.remotes[c->remote].waits;
}

bool needs_answer(void) { return dialogue.fellow.is_lent && dialogue.fellow.is_wanted; }

bool awaits_answer(const connection_t *c) { return is_waited_for(c) && is_under_way(); }

bool may_seek_commit(const connection_t *c, int64_t now_ns) {
    return !is_waited_for(c) || (now_ns < answer_due_ns() && can_be_told(ENTRIES_BYTES));
}

/* Our order information from an offset on, to one process or to the group. */
static void tell(int64_t from, uint16_t flags, int channel, const struct sockaddr_in *to, int to_count) {
    fellow_t *f = &dialogue.fellow;
    int64_t early = from < dialogue.order_base ? dialogue.order_base - from : 0;
    size_t at = from > dialogue.order_base ? (size_t)(from - dialogue.order_base) : 0;
    dynamic_t dynamic = {
        .flags = flags,
        .fragment_count = 1,
        .order_length = (uint16_t)(order_end() - from),
        .watermark = (uint64_t)dialogue.group_watermark,
        .committed = (uint64_t)dialogue.order_committed,
        .order_start = (uint64_t)from,
    };
    datagram_piece pieces[] = {
        {.data = f->out_prefix, .size = PREFIX_BYTES},
        {.data = &dynamic, .size = sizeof dynamic},
        {.data = f->before.data + f->before.size - early, .size = (size_t)early},
        {.data = dialogue.orders.data + at, .size = dialogue.orders.size - at},
    };
    if (datagram->send(dialogue.datagrams, pieces, 4, channel, to, to_count) < 0)
        Py_FatalError("the network cannot be written");
}

static bool ask(int64_t now_ns) {
    fellow_t *f = &dialogue.fellow;
    if (!f->is_wanted || is_under_way())
        return false;
    f->is_wanted = false;
    if (f->held < order_end()) {
        f->asked_ns = now_ns;
        f->end = order_end();
        f->has_asked = true;
        tally.asked++;
        tell(f->held, COMMITS, TO_PROCESS, f->to, f->to_count);
    }
    return true;
}

static void tell_others(int64_t now_ns) {
    fellow_t *f = &dialogue.fellow;
    int64_t from = untold_from();
    if (!f->has_others || now_ns < f->told_ns + f->telling_ns)
        return;
    f->told_ns = now_ns;
    f->told_end = order_end();
    if (from < order_end())
        tell(from, ONE_ANSWERS, TO_GROUP, f->others, f->other_count);
}

bool seek_commit(const connection_t *c, int64_t now_ns) {
    if (is_waited_for(c) && dialogue.order_committed < order_end())
        dialogue.fellow.is_wanted = true;
    return dialogue.fellow.is_lent && ask(now_ns);
}

void seek_on(bool asked, int64_t now_ns) {
    if (asked)
        tell_others(now_ns);
}

static bool take_held(const datagram_taken *taken, const dynamic_t *dynamic, int64_t now_ns) {
    fellow_t *f = &dialogue.fellow;
    held_t held;
    if (taken->channel != TO_PROCESS || taken->size != HEADER_BYTES + sizeof held || dynamic->flags ||
        dynamic->order_length || dynamic->reflected_length || dynamic->payload_length != sizeof held)
        return false;
    memcpy(&held, taken->data + HEADER_BYTES, sizeof held);
    if (memcmp(held.sender, f->sender, BIRTH_BYTES) || held.end > (uint64_t)order_end())
        return false;
    if (f->is_wanted && !can_be_told(0))
        return false;
    if ((int64_t)held.end > f->held)
        f->held = (int64_t)held.end;
    if (f->held > dialogue.order_committed)
        dialogue.order_committed = f->held;
    seek_on(ask(now_ns), now_ns);
    return true;
}

/* -- at a backup ------------------------------------------------------------------------------------- */

static void say_held(const uint8_t *prefix, int channel, const struct sockaddr_in *to, int to_count) {
    const fellow_t *f = &dialogue.fellow;
    dynamic_t dynamic = {.fragment_count = 1, .payload_length = sizeof(held_t)};
    held_t held = {.end = (uint64_t)f->wanted_end};
    memcpy(held.sender, f->sender, BIRTH_BYTES);
    datagram_piece pieces[] = {
        {.data = prefix, .size = PREFIX_BYTES},
        {.data = &dynamic, .size = sizeof dynamic},
        {.data = &held, .size = sizeof held},
    };
    if (datagram->send(dialogue.datagrams, pieces, 3, channel, to, to_count) < 0)
        Py_FatalError("the network cannot be written");
}

/* The next entry is passed, if its messages are here; false: it is not known, or they are not. */
static bool skim_entry(void) {
    fellow_t *f = &dialogue.fellow;
    int64_t fd = f->skimmed_fd, size;
    size_t bytes = skim(dialogue.orders.data + f->skimmed, dialogue.orders.data + dialogue.orders.size, &fd, &size);
    if (!bytes)
        return false;
    if (size >= 0) {
        connection_t *c = connection_of_fd(fd);
        if (!c || !size || c->received_bytes - c->ordered_bytes < size)
            return false;
        c->ordered_bytes += size;
    }
    f->skimmed_fd = fd;
    f->skimmed += bytes;
    return true;
}

bool answer_if_held(void) {
    fellow_t *f = &dialogue.fellow;
    if (!f->is_lent || dialogue.live || !f->wanted_end)
        return true;
    while (dialogue.order_base + (int64_t)f->skimmed < f->wanted_end)
        if (!skim_entry())
            return false;
    for (int at = 0; at < dialogue.remote_count; at++) {
        const remote_t *remote = &dialogue.remotes[at];
        if (remote->waits)
            say_held(remote->held_prefix, TO_GROUP, remote->to, remote->to_count);
    }
    say_held(f->out_prefix, TO_PROCESS, f->to, f->to_count);
    f->wanted_end = 0;
    tally.answered++;
    return true;
}

/* A question, or what those are told who are not asked. */
static bool take_question(const datagram_taken *taken, const dynamic_t *dynamic, int64_t now_ns) {
    fellow_t *f = &dialogue.fellow;
    bool is_question = taken->channel == TO_PROCESS && dynamic->flags == COMMITS && dialogue.may_decode;
    bool is_told = taken->channel == TO_GROUP && dynamic->flags == ONE_ANSWERS;
    int64_t start = (int64_t)dynamic->order_start, end = order_end(), behind = start + dynamic->order_length;
    if (!(is_question || is_told) || dynamic->payload_length || dynamic->reflected_length ||
        taken->size != (size_t)HEADER_BYTES + dynamic->order_length || start > end)
        return false;
    if (behind > end)
        put_bytes(&dialogue.orders, taken->data + HEADER_BYTES + (end - start), (size_t)(behind - end));
    if (is_question && behind > f->wanted_end)
        f->wanted_end = behind;
    if (is_question)
        f->asked_ns = now_ns;
    else if (f->is_passed_over)
        f->told_ns = now_ns;
    return true;
}

/* -- taken ------------------------------------------------------------------------------------------- */

bool take_from_fellow(const datagram_taken *taken, int64_t now_ns) {
    fellow_t *f = &dialogue.fellow;
    dynamic_t dynamic;
    bool is_paused = now_ns - dialogue.last_ns > dialogue.pause_ns; /* the core finds that out first */
    if (!f->is_lent || is_paused || taken->channel > TO_PROCESS || taken->size < HEADER_BYTES)
        return false;
    bool is_beat = !dialogue.live && !memcmp(taken->data, f->beat_prefix, PREFIX_BYTES);
    if ((!is_beat && memcmp(taken->data, f->in_prefix, PREFIX_BYTES)) ||
        memcmp(taken->identity + DATAGRAMS_BIRTH_IN_IDENTITY, f->birth, DATAGRAMS_BIRTH_BYTES) ||
        (int64_t)taken->number <= f->newest[taken->channel])
        return false;
    memcpy(&dynamic, taken->data + PREFIX_BYTES, sizeof dynamic);
    if (dynamic.fragment_index || dynamic.fragment_count != 1 || has_absurd_numbers(&dynamic))
        return false;
    if (!(is_beat ? take_beat : dialogue.live ? take_held : take_question)(taken, &dynamic, now_ns))
        return false;
    f->newest[taken->channel] = (int64_t)taken->number;
    put_bytes(&f->numbers[taken->channel], &taken->number, sizeof taken->number);
    f->is_used = true;
    return true;
}

/* -- lent, and taken back ---------------------------------------------------------------------------- */

static int read_numbers(PyObject *numbers) {
    fellow_t *f = &dialogue.fellow;
    int64_t has_others, wanted, is_passed_over, *places[] = {
        /* In the order of `core.dialogue_fellow`. */
        &f->room, &f->held, &f->end, &f->asked_ns, &f->patience_ns, &wanted,
        &has_others, &f->behind, &f->told_ns, &f->told_end, &f->telling_ns, &f->before_base, &is_passed_over,
    };
    Py_ssize_t count = sizeof places / sizeof *places;
    if (PyTuple_GET_SIZE(numbers) != count)
        return -1;
    for (Py_ssize_t at = 0; at < count; at++) {
        *places[at] = PyLong_AsLongLong(PyTuple_GET_ITEM(numbers, at));
        if (*places[at] == -1 && PyErr_Occurred())
            return -1;
    }
    f->has_others = has_others != 0;
    f->is_wanted = wanted != 0;
    f->is_passed_over = is_passed_over != 0;
    return 0;
}

static int copy_bytes(PyObject *data, uint8_t *to, Py_ssize_t size) {
    if (!PyBytes_CheckExact(data) || PyBytes_GET_SIZE(data) != size)
        return -1;
    memcpy(to, PyBytes_AS_STRING(data), (size_t)size);
    return 0;
}

/* [(place of a group that waits, prefix of a Held to it)] */
static int read_waiting(PyObject *waiting) {
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(waiting); at++) {
        int place;
        PyObject *prefix, *one = PyList_GET_ITEM(waiting, at);
        if (!PyTuple_Check(one) || !PyArg_ParseTuple(one, "iO", &place, &prefix) || place < 0 ||
            place >= dialogue.remote_count || copy_bytes(prefix, dialogue.remotes[place].held_prefix, PREFIX_BYTES) < 0)
            return -1;
        dialogue.remotes[place].waits = true;
    }
    return 0;
}

/* At a backup: up to where the log, as it is read, has read the connections. */
static int read_ordered(PyObject *ordered) {
    Py_ssize_t count = PyTuple_GET_SIZE(ordered);
    if (count && count != dialogue.connection_count)
        return -1;
    for (Py_ssize_t at = 0; at < count; at++) {
        dialogue.connections[at].ordered_bytes = PyLong_AsLongLong(PyTuple_GET_ITEM(ordered, at));
        if (PyErr_Occurred())
            return -1;
    }
    return 0;
}

/* (birth, newest numbers to the group and to this process, where it is, where the others are, prefix of what comes,
 * of what leaves, of the primary's beats, who says that it holds, numbers, bytes of the log before those that are lent, who waits, what is
 * read), or None */
int read_fellow(PyObject *fellow) {
    fellow_t *f = &dialogue.fellow;
    PyObject *birth, *to, *others, *in_prefix, *out_prefix, *beat_prefix, *sender, *numbers, *waiting, *ordered;
    const char *before;
    Py_ssize_t before_size;
    long long group_number, process_number;
    f->is_lent = f->is_used = f->has_asked = false;
    f->before.size = f->skimmed = f->beats.size = 0;
    f->wanted_end = f->beat_watermark = f->heard_ns = 0;
    for (int at = 0; at < CHANNELS; at++)
        f->numbers[at].size = 0;
    for (int at = 0; at < dialogue.remote_count; at++)
        dialogue.remotes[at].waits = false;
    if (fellow == Py_None)
        return 0;
    if (!PyTuple_Check(fellow) ||
        !PyArg_ParseTuple(fellow, "OLLOOOOOOO!y#O!O!", &birth, &group_number, &process_number, &to, &others, &in_prefix,
                          &out_prefix, &beat_prefix, &sender, &PyTuple_Type, &numbers, &before, &before_size, &PyList_Type, &waiting,
                          &PyTuple_Type, &ordered))
        return -1;
    if (copy_bytes(birth, f->birth, DATAGRAMS_BIRTH_BYTES) < 0 || copy_bytes(in_prefix, f->in_prefix, PREFIX_BYTES) < 0 ||
        copy_bytes(out_prefix, f->out_prefix, PREFIX_BYTES) < 0 ||
        copy_bytes(beat_prefix, f->beat_prefix, PREFIX_BYTES) < 0 || copy_bytes(sender, f->sender, BIRTH_BYTES) < 0 ||
        read_numbers(numbers) < 0 || read_waiting(waiting) < 0 || read_ordered(ordered) < 0 ||
        read_addresses(to, f->to, &f->to_count) < 0 || read_addresses(others, f->others, &f->other_count) < 0) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "a fellow has other numbers, or bytes of another length");
        return -1;
    }
    f->newest[TO_GROUP] = group_number;
    f->newest[TO_PROCESS] = process_number;
    put_bytes(&f->before, before, (size_t)before_size);
    f->skimmed_fd = dialogue.context_fd;
    f->is_lent = true;
    return 0;
}

/* In the order of `core.dialogue_fellow.MadeFellow`; None: nothing has become of it. */
PyObject *fellow_now(void) {
    const fellow_t *f = &dialogue.fellow;
    if (!f->is_lent || !(f->is_used || f->has_asked || f->is_wanted))
        Py_RETURN_NONE;
    return Py_BuildValue("LLLOOLLLNNNy#L", (long long)f->held, (long long)f->end, (long long)f->asked_ns,
                         f->is_wanted ? Py_True : Py_False, f->has_asked ? Py_True : Py_False, (long long)f->told_ns,
                         (long long)f->told_end, (long long)f->wanted_end, runs_in(&f->numbers[TO_GROUP]),
                         runs_in(&f->numbers[TO_PROCESS]), times_in(&f->beats), f->beat,
                         (Py_ssize_t)(f->beats.size ? BEAT_BYTES : 0), (long long)f->beat_watermark);
}
