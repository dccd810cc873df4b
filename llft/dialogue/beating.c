/* Heartbeats of one's own group in a dialogue, heard and said. They do not end it, for each end costs as much as
 * dozens of messages.
 *
 * A backup hears its primary's: when they came, for the fault detector, and what the newest says. A primary hears its
 * backups': of each when it was heard last, and what it says. All that a Heartbeat says only grows, so nothing of the
 * others is missing. What it says of watermarks counts at once: what all members have is forgotten, and told (`back`).
 * Each says its own when it is due, as `IntraGroup.on_heartbeat_timer` would; and the pulse is told that it did.
 *
 * Who waits for the output commit is told what is committed with a primary's beat, by a KeepAlive, as `Asking.announce`
 * has it: what was said of it before may have been lost.
 *
 * Where no beats are lent (somebody waits whom nobody tells here) a primary keeps those of its members as they are, and
 * so does everybody with a copy that came late (the pulse's), and with a KeepAlive that brings nothing: they are looked
 * at by the core, as if they had come later, but not by more than PUT_OFF_NS.
 *
 * Laws: a beat that wants something (an answer, a switch) does not wait; who would be suspected by now is not beaten
 * over: the core sees to it; who was stopped finds that out before it beats; the first silence ends what waits. */

#include "dialogue.h"

#include <string.h>

enum {
    TYPE_AT = 1, /* as wire.header has it */
    GROUPS_AT = 4,
    HEARTBEAT = 6, /* as wire.messages has it */
    KEEP_ALIVE = 7,
    TO_GROUP = 0,
    TO_PROCESS = 2,
    NS_IN_MS = 1000000,
};

static const int64_t PUT_OFF_NS = 20 * NS_IN_MS, IDLE_PUT_OFF_NS = 100 * NS_IN_MS;

/* As `wire.bodies` has it. */
typedef struct __attribute__((packed)) {
    uint8_t sender[16];
    uint64_t beat, echo, order_end, watermark, executed, change_num;
} beat_t;

_Static_assert(sizeof(beat_t) == BEAT_BYTES, "as wire.bodies has it");

static int64_t later(int64_t one, int64_t other) { return one > other ? one : other; }

/* -- watermarks -------------------------------------------------------------------------------------- */

/* How far this member has come: a backup no further than it has performed, or than the core knows. */
static int64_t own_watermark(void) {
    if (dialogue.live)
        return order_end();
    return later(dialogue.beating.own_watermark, dialogue.performed ? dialogue.order_base + (int64_t)dialogue.performed : 0);
}

static void advance(int64_t watermark) {
    if (watermark > dialogue.group_watermark) {
        dialogue.group_watermark = watermark;
        forget_delivered();
    }
}

static int64_t least_of_members(void) {
    const beating_t *b = &dialogue.beating;
    int64_t least = order_end();
    for (int at = 0; at < b->member_count; at++)
        if (b->members[at].watermark < least)
            least = b->members[at].watermark;
    return least;
}

/* -- heard ------------------------------------------------------------------------------------------- */

static bool is_plain_beat(const datagram_taken *taken, const dynamic_t *dynamic) {
    return !dynamic->flags && !dynamic->order_length && !dynamic->reflected_length && !dynamic->fragment_index &&
           dynamic->fragment_count == 1 && dynamic->payload_length == BEAT_BYTES &&
           taken->size == HEADER_BYTES + BEAT_BYTES && !has_absurd_numbers(dynamic);
}

/* At a backup. The primary's, from `take_from_fellow`. */
bool take_beat(const datagram_taken *taken, const dynamic_t *dynamic, int64_t now_ns) {
    fellow_t *f = &dialogue.fellow;
    beat_t beat;
    if (dialogue.live || taken->channel != TO_GROUP || !is_plain_beat(taken, dynamic) ||
        !(is_brisk() || dialogue.beating.is_lent))
        return false;
    memcpy(&beat, taken->data + HEADER_BYTES, sizeof beat);
    if (!is_brisk() && beat.order_end > (uint64_t)order_end())
        return false; /* there is more than it knows, and nothing comes that would bring it: the core asks */
    memcpy(f->beat, &beat, BEAT_BYTES);
    f->beat_watermark = later(f->beat_watermark, (int64_t)dynamic->watermark);
    put_bytes(&f->beats, &now_ns, sizeof now_ns);
    f->heard_ns = now_ns;
    dialogue.suspect_ns = now_ns + dialogue.suspect_after_ns;
    if (dialogue.beating.is_lent)
        advance(f->beat_watermark < own_watermark() ? f->beat_watermark : own_watermark());
    return true;
}

/* Whoever is asked for the output commit has one row of numbers for all that it says. */
static bool is_fellow(const member_t *m) {
    const fellow_t *f = &dialogue.fellow;
    return f->is_lent && !memcmp(m->birth, f->birth, DATAGRAMS_BIRTH_BYTES);
}

static int64_t *newest_of(member_t *m, int channel) {
    return is_fellow(m) ? &dialogue.fellow.newest[channel] : &m->newest[channel];
}

static member_t *member_of(const datagram_taken *taken) {
    beating_t *b = &dialogue.beating;
    for (int at = 0; at < b->member_count; at++) {
        member_t *m = &b->members[at];
        if (!memcmp(taken->identity + DATAGRAMS_BIRTH_IN_IDENTITY, m->birth, DATAGRAMS_BIRTH_BYTES))
            return (int64_t)taken->number > *newest_of(m, taken->channel) ? m : NULL;
    }
    return NULL;
}

static void note_beat_taken(member_t *m, const datagram_taken *taken) {
    fellow_t *f = &dialogue.fellow;
    *newest_of(m, taken->channel) = (int64_t)taken->number;
    f->is_used |= is_fellow(m);
    put_bytes(is_fellow(m) ? &f->numbers[taken->channel] : &m->numbers[taken->channel], &taken->number, sizeof taken->number);
}

/* At a primary. What a backup says that knows more than there is, or is out of its mind, is the core's. */
bool take_beat_of_member(const datagram_taken *taken, int64_t now_ns) {
    const beating_t *b = &dialogue.beating;
    dynamic_t dynamic;
    beat_t beat;
    if (!b->is_lent || !dialogue.live || (taken->channel != TO_PROCESS && taken->channel != TO_GROUP) ||
        taken->size != HEADER_BYTES + BEAT_BYTES || memcmp(taken->data, b->prefix, PREFIX_BYTES) || is_paused(now_ns))
        return false;
    memcpy(&dynamic, taken->data + PREFIX_BYTES, sizeof dynamic);
    memcpy(&beat, taken->data + HEADER_BYTES, sizeof beat);
    member_t *m = member_of(taken);
    if (!m || !is_plain_beat(taken, &dynamic) || memcmp(beat.sender, m->sender, sizeof beat.sender) ||
        beat.watermark > (uint64_t)order_end() || beat.executed > (uint64_t)dialogue.count)
        return false;
    note_beat_taken(m, taken);
    memcpy(m->beat, &beat, BEAT_BYTES);
    m->heard_ns = now_ns;
    m->watermark = later(m->watermark, (int64_t)beat.watermark);
    advance(least_of_members());
    return true;
}

/* -- said -------------------------------------------------------------------------------------------- */

static void beat(int64_t now_ns) {
    beating_t *b = &dialogue.beating;
    const fellow_t *f = &dialogue.fellow;
    beat_t said, heard;
    memcpy(&said, b->body, sizeof said);
    if (dialogue.live) {
        advance(least_of_members());
        said.beat = ++b->count;
    } else if (f->beats.size) {
        memcpy(&heard, f->beat, sizeof heard);
        said.echo = heard.beat > said.echo ? heard.beat : said.echo;
    }
    said.order_end = (uint64_t)order_end();
    said.watermark = (uint64_t)(dialogue.live ? dialogue.group_watermark : own_watermark());
    said.executed = (uint64_t)dialogue.count;
    dynamic_t dynamic = {
        .fragment_count = 1,
        .payload_length = sizeof said,
        .watermark = (uint64_t)dialogue.group_watermark,
        .committed = (uint64_t)dialogue.order_committed,
    };
    datagram_piece pieces[] = {
        {.data = b->prefix, .size = PREFIX_BYTES},
        {.data = &dynamic, .size = sizeof dynamic},
        {.data = &said, .size = sizeof said},
    };
    if (datagram->send(dialogue.datagrams, pieces, 3, dialogue.live ? TO_GROUP : TO_PROCESS, b->to, b->to_count) < 0)
        Py_FatalError("the network cannot be written");
    b->beaten_ns = dialogue.last_ns = now_ns;
    b->due_ns = now_ns + b->interval_ns;
    if (b->pulse_ns)
        __atomic_store_n(b->pulse_ns, now_ns + b->pulse_leave_ns, __ATOMIC_RELAXED);
    tally.beaten++;
}

static bool is_somebody_suspect(int64_t now_ns) {
    const beating_t *b = &dialogue.beating;
    for (int at = 0; at < b->member_count; at++)
        if (now_ns >= b->members[at].heard_ns + b->members[at].timeout_ns)
            return true;
    return false;
}

/* The one of a group's connections that something was said on last. */
static connection_t *speaker_of(int remote) {
    connection_t *speaker = NULL;
    for (int at = 0; at < dialogue.connection_count; at++) {
        connection_t *c = &dialogue.connections[at];
        if (c->remote == remote && (!speaker || c->said_ns > speaker->said_ns))
            speaker = c;
    }
    return speaker;
}

/* False: there is more to be said with it than one datagram may carry. */
static bool announce(void) {
    beating_t *b = &dialogue.beating;
    if (!dialogue.live || !dialogue.fellow.is_lent || b->announced >= dialogue.order_committed)
        return true;
    for (int at = 0; at < dialogue.remote_count; at++) {
        connection_t *c = dialogue.remotes[at].waits ? speaker_of(at) : NULL;
        if (c && !may_leave())
            return false;
        if (c && multicast_keep_alive(c) < 0)
            Py_FatalError("the network cannot be written");
    }
    b->announced = dialogue.order_committed;
    return true;
}

int64_t beat_due_ns(void) { return dialogue.beating.is_lent ? dialogue.beating.due_ns : NEVER; }

bool keep_beating(int64_t now_ns) {
    if (now_ns < beat_due_ns())
        return true;
    if (is_paused(now_ns) || is_somebody_suspect(now_ns) || !announce())
        return false;
    beat(now_ns);
    return true;
}

/* -- put off ----------------------------------------------------------------------------------------- */

static bool is_bare(const dynamic_t *dynamic) {
    return !dynamic->flags && !dynamic->order_length && !dynamic->reflected_length && !dynamic->payload_length;
}

static bool is_of_fellow(const datagram_taken *taken) {
    const fellow_t *f = &dialogue.fellow;
    return f->is_lent && !memcmp(taken->identity + DATAGRAMS_BIRTH_IN_IDENTITY, f->birth, DATAGRAMS_BIRTH_BYTES);
}

/* How long it can wait until the core looks at it; 0: not at all. */
int64_t put_off_ns(const datagram_taken *taken, int64_t now_ns) {
    uint32_t groups[2];
    dynamic_t dynamic;
    if (!is_brisk() || taken->size < HEADER_BYTES)
        return 0;
    memcpy(groups, taken->data + GROUPS_AT, sizeof groups);
    memcpy(&dynamic, taken->data + PREFIX_BYTES, sizeof dynamic);
    bool is_own = groups[0] == (uint32_t)dialogue.who[0], is_for_us = groups[1] == (uint32_t)dialogue.who[0];
    uint8_t type = taken->data[TYPE_AT];
    if (type == HEARTBEAT && is_own && is_for_us && (dialogue.live || !dynamic.flags)) {
        if (is_of_fellow(taken))
            dialogue.fellow.heard_ns = now_ns;
        return PUT_OFF_NS;
    }
    return type == KEEP_ALIVE && dialogue.live && !is_own && is_for_us && is_bare(&dynamic) ? IDLE_PUT_OFF_NS : 0;
}

bool something_waits(void) {
    bool must_be_told = dialogue.fellow.beats.size > 0 && !dialogue.beating.is_lent;
    return PyList_GET_SIZE(dialogue.postponed) > 0 || must_be_told;
}

/* -- lent, and taken back ---------------------------------------------------------------------------- */

static int copy_of(const char *data, Py_ssize_t size, uint8_t *to, Py_ssize_t expected) {
    if (size != expected) {
        PyErr_SetString(PyExc_ValueError, "a prefix, a beat or a birth has another length");
        return -1;
    }
    memcpy(to, data, (size_t)size);
    return 0;
}

/* (birth as envelopes have it, as messages do, newest numbers to the group and to this process, watermark, heard,
 * timeout) */
static int read_member(PyObject *one) {
    beating_t *b = &dialogue.beating;
    member_t *m = &b->members[b->member_count];
    const char *birth, *sender;
    Py_ssize_t birth_size, sender_size;
    long long to_group, to_process, watermark, heard_ns, timeout_ns;
    if (b->member_count == MEMBERS_MAX || !PyTuple_Check(one) ||
        !PyArg_ParseTuple(one, "y#y#LLLLL", &birth, &birth_size, &sender, &sender_size, &to_group, &to_process,
                          &watermark, &heard_ns, &timeout_ns))
        return PyErr_Occurred() ? -1 : (PyErr_SetString(PyExc_ValueError, "too many members"), -1);
    for (int at = 0; at < CHANNELS; at++)
        m->numbers[at].size = 0;
    m->newest[TO_GROUP] = to_group;
    m->newest[TO_PROCESS] = to_process;
    m->watermark = watermark;
    m->lent_ns = m->heard_ns = heard_ns;
    m->timeout_ns = timeout_ns;
    b->member_count++;
    return copy_of(birth, birth_size, m->birth, DATAGRAMS_BIRTH_BYTES) < 0 ? -1 : copy_of(sender, sender_size, m->sender, 16);
}

/* (due, interval, own watermark, prefix, body, destinations, members, where the pulse looks, its leave, what was
 * announced), or None */
int read_beating(PyObject *beating) {
    beating_t *b = &dialogue.beating;
    const char *prefix, *body;
    Py_ssize_t prefix_size, body_size;
    long long due_ns, interval_ns, watermark, leave_ns, announced;
    unsigned long long pulse;
    PyObject *to, *members;
    beat_t lent;
    b->is_lent = false;
    b->member_count = 0;
    b->beaten_ns = 0;
    if (beating == Py_None)
        return 0;
    if (!PyTuple_Check(beating) ||
        !PyArg_ParseTuple(beating, "LLLy#y#OO!KLL", &due_ns, &interval_ns, &watermark, &prefix, &prefix_size, &body,
                          &body_size, &to, &PyList_Type, &members, &pulse, &leave_ns, &announced))
        return -1;
    if (copy_of(prefix, prefix_size, b->prefix, PREFIX_BYTES) < 0 || copy_of(body, body_size, b->body, BEAT_BYTES) < 0 ||
        read_addresses(to, b->to, &b->to_count) < 0)
        return -1;
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(members); at++)
        if (read_member(PyList_GET_ITEM(members, at)) < 0)
            return -1;
    memcpy(&lent, b->body, sizeof lent);
    b->count = lent.beat;
    b->due_ns = due_ns;
    b->interval_ns = interval_ns;
    b->own_watermark = watermark;
    b->announced = announced;
    b->pulse_ns = (int64_t *)(uintptr_t)pulse;
    b->pulse_leave_ns = leave_ns;
    b->is_lent = true;
    return 0;
}

static PyObject *members_now(void) {
    const beating_t *b = &dialogue.beating;
    PyObject *list = PyList_New(0);
    for (int at = 0; list && at < b->member_count; at++) {
        const member_t *m = &b->members[at];
        if (m->heard_ns == m->lent_ns)
            continue;
        PyObject *one = Py_BuildValue("iLy#NN", at, (long long)m->heard_ns, m->beat, (Py_ssize_t)BEAT_BYTES,
                                      runs_in(&m->numbers[TO_GROUP]), runs_in(&m->numbers[TO_PROCESS]));
        if (!one || PyList_Append(list, one) < 0)
            Py_CLEAR(list);
        Py_XDECREF(one);
    }
    return list;
}

/* In the order of `core.dialogue_beats.MadeBeats`; None: none was said or heard. */
PyObject *beating_now(void) {
    const beating_t *b = &dialogue.beating;
    PyObject *members = b->is_lent ? members_now() : NULL;
    if (members && !b->beaten_ns && !PyList_GET_SIZE(members))
        Py_CLEAR(members);
    if (!members && PyErr_Occurred())
        return NULL;
    if (!members)
        Py_RETURN_NONE;
    return Py_BuildValue("LLKNL", (long long)b->beaten_ns, (long long)b->due_ns, (unsigned long long)b->count, members,
                         (long long)b->announced);
}
