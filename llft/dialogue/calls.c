/* The calls of a dialogue.
 *
 * Law: a call is made whole, or not at all: what is out of the ordinary is left to the usual way before anything
 * has happened. A primary's deadlines, a pause of this process, a window that is used up, another entry than the
 * call's, other bytes than the log's digest has: all of that is out of the ordinary.
 *
 * A call that uses up the quantum makes the thread give the token back. Nobody else could be picked, so it is
 * picked again: at a primary if nothing else has come meanwhile and nothing is due, at a backup if besides no other
 * thread is parked or the next entry of the log proves it.
 */

#include "dialogue.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "../wire/crc32.h"

enum {
    LEVELS_NEEDED = 300, /* of the stack: the call may have to go the usual way from here (`runtime.driver`) */
    CALLED_MAX = 8192,
    FDS_MAX = CONNECTIONS_MAX,
    LISTENER = 0,
    SELECTED_TAG = 'S',
    SELECTED_WRITABLE_TAG = 'W',
    SELECTED_BYTES = 16 + 20 * FDS_MAX,
};

dialogue_t dialogue;
const datagram_functions *datagram;
PyObject *handed;

static uint32_t digest_on(uint32_t digest, PyObject *data) {
    return ~crc32_over(~digest, (const uint8_t *)PyBytes_AS_STRING(data), (size_t)PyBytes_GET_SIZE(data));
}

/* -- of all calls ------------------------------------------------------------------------------------ */

bool is_paused(int64_t now_ns) { return now_ns - dialogue.last_ns > dialogue.pause_ns; }

/* One that was left is over, whoever tries it again: what has come is for the core, and would wait here. */
bool is_here(int64_t now_ns) {
    if (!dialogue.ident || dialogue.ident != PyThread_get_thread_ident())
        return false;
    if (dialogue.left)
        return because(left), false;
    if (is_paused(now_ns))
        return because(paused), false;
    if (!has_room_for_births() || dialogue.called_count >= CALLED_MAX)
        return because(full), false;
    return true;
}

/* The next call uses up the quantum. */
bool is_spent(void) { return dialogue.calls + 1 >= dialogue.quantum; }

void spend(int64_t now_ns) {
    dialogue.last_ns = now_ns;
    if (++dialogue.calls >= dialogue.quantum) {
        dialogue.pick++;
        dialogue.calls = 0;
    }
}

void be_picked(void) {
    dialogue.pick++;
    dialogue.calls = 0;
}

bool is_far_ahead(void) { return order_end() - dialogue.group_watermark > dialogue.order_lag_bytes; }

/* At a primary: whether a call that does not wait may be made. */
static bool may_go_on(int64_t now_ns) {
    if (is_far_ahead())
        return because(far_ahead), false;
    if (!is_spent())
        return true;
    if (!is_calm(now_ns))
        return because(not_calm), false;
    return !somebody_could_go_on() || (because(somebody_else), false);
}

static bool is_mine(const entry_t *entry, int kind, int64_t pick) {
    return entry->kind == kind && entry->pick == pick && entry->thread == dialogue.thread;
}

/* At a backup: whether it is known that the thread is picked again, by what follows what was looked at. */
static outcome_t proves_pick(look_t look, int64_t pick) {
    entry_t next;
    if (somebody_could_go_on())
        return LEAVE;
    if (is_alone())
        return ARRIVED;
    next_entry(&look, &next);
    if (next.kind == NOT_YET)
        return WAIT;
    return next.kind != OTHER && next.pick == pick + 1 && next.thread == dialogue.thread ? ARRIVED : LEAVE;
}

/* At a backup: the entry of a call that may have waited. A thread that was woken is picked as soon as the entry
 * behind proves that nobody else was woken with it. */
static outcome_t next_call(look_t *look, entry_t *entry, int64_t *pick, bool *woken) {
    if (is_spent() && !is_calm(monotonic_ns()))
        return because(not_calm), LEAVE; /* much of the log may be here: others are heard all the same, and deadlines kept */
    *look = look_at_log();
    *pick = dialogue.pick;
    next_entry(look, entry);
    *woken = is_mine(entry, WAKE, *pick);
    if (*woken) {
        next_entry(look, entry);
        ++*pick;
    }
    if (entry->kind == NOT_YET)
        return WAIT;
    if (entry->pick != *pick || entry->thread != dialogue.thread)
        return because(others_turn), LEAVE;
    return !*woken && is_spent() ? proves_pick(*look, *pick) : ARRIVED;
}

static bool is_counted(const entry_t *entry, int kind, const count_of *count) {
    return entry->kind == kind && is_usable(count) && entry->identifier == count->identifier &&
           entry->count == count->performed + 1;
}

/* At a backup, what was looked at is performed. */
static void go_on_from(const look_t *look, int64_t pick, bool woken) {
    pass(look);
    dialogue.pick = pick;
    if (woken)
        dialogue.calls = 0;
}

/* A call could not be made: once more (ARRIVED), or it is left to others. */
static outcome_t try_again(outcome_t outcome, const asked_t *asked, int64_t *now_ns) {
    if (outcome == WAIT)
        outcome = wait_for_network(now_ns, asked);
    if (outcome == ARRIVED && is_paused(*now_ns))
        because(paused);
    return outcome == ARRIVED && is_paused(*now_ns) ? LEAVE : outcome;
}

/* The thread waits, or what the log has next is another one's. */
static bool may_give_way(outcome_t outcome) {
    return has_threads() && (outcome == WAIT || (outcome == LEAVE && !dialogue.live && !dialogue.left));
}

/* Instead of a result. */
static PyObject *left_to_others(outcome_t outcome) { return Py_NewRef(outcome == HANDED ? handed : Py_None); }

static void note_counted(int kind, const count_of *count, bool woken, const uint8_t *data, size_t size, int64_t now_ns) {
    call_t call = {.kind = kind, .woken = woken, .time_ns = now_ns, .number = dialogue.count, .pick = dialogue.pick,
                   .position = count->identifier, .limit = count->performed, .data_at = dialogue.counted.size,
                   .data_size = size};
    put_bytes(&dialogue.counted, data, size);
    note_call(&call);
}

/* -- hearing ----------------------------------------------------------------------------------------- */

/* Whether that of the first bytes of a message follows from its own and that of a short rest. */
static bool follows_from_whole(const connection_t *c, const message_t *message, int64_t size, uint32_t *checksum) {
    int64_t rest = PyBytes_GET_SIZE(message->payload) - size;
    if (c->read_offset || !message->has_checksum || rest < 0 || rest > size / 4)
        return false;
    const uint8_t *behind = (const uint8_t *)PyBytes_AS_STRING(message->payload) + size;
    *checksum = rest ? crc32_before(message->checksum, crc32_of(behind, (size_t)rest), (size_t)rest) : message->checksum;
    return true;
}

static uint32_t checksum_of(PyObject *data) {
    return crc32_of((const uint8_t *)PyBytes_AS_STRING(data), (size_t)PyBytes_GET_SIZE(data));
}

/* The next `size` bytes of what was received, and their checksum, if they are a message or many; what is used up is
 * delivered. The checksum of a message is needed again when it is forgotten, and its bytes are in no cache by then. */
static PyObject *take_bytes(connection_t *c, int64_t size, bool *has_checksum, uint32_t *checksum) {
    message_t *first = &c->received.items[c->received.first];
    bool is_whole = !c->read_offset && PyBytes_GET_SIZE(first->payload) == size;
    if (is_whole && !first->has_checksum) {
        first->checksum = checksum_of(first->payload);
        first->has_checksum = true;
    }
    *has_checksum = (is_whole || size >= LARGE_BYTES) && follows_from_whole(c, first, size, checksum);
    PyObject *data = is_whole ? Py_NewRef(first->payload) : PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (!data)
        Py_FatalError("no memory for what was received");
    for (int64_t done = 0; done < size;) {
        first = &c->received.items[c->received.first];
        int64_t left = PyBytes_GET_SIZE(first->payload) - c->read_offset;
        int64_t part = left < size - done ? left : size - done;
        if (data != first->payload)
            memcpy(PyBytes_AS_STRING(data) + done, PyBytes_AS_STRING(first->payload) + c->read_offset, (size_t)part);
        done += part;
        c->read_offset += part;
        if (part == left) {
            message_t *delivered = add_message(&c->delivered);
            *delivered = *first;
            c->delivered_position = first->position;
            c->delivered_timestamp = first->timestamp;
            c->read_offset = 0;
            c->received.first++;
            if (!--c->received.count)
                c->received.first = 0;
        }
    }
    c->delivered_bytes += size;
    if (!*has_checksum && size >= LARGE_BYTES) {
        *checksum = checksum_of(data);
        *has_checksum = true;
    }
    return data;
}

/* Where the entry ends that says what was delivered last; 0: the core has read it already, and marked it too. */
static int64_t mark_of_last(bool decoded) {
    if (dialogue.live)
        return order_end();
    return decoded ? dialogue.order_base + (int64_t)dialogue.performed : 0;
}

PyObject *deliver(connection_t *c, int64_t size, int64_t limit, bool woken, bool decoded, int64_t now_ns) {
    int64_t before = c->delivered_position;
    bool has_checksum;
    uint32_t checksum = 0;
    PyObject *data = take_bytes(c, size, &has_checksum, &checksum);
    c->used = true;
    if (c->delivered_position != before && c->delivered_timestamp > dialogue.clock)
        dialogue.clock = c->delivered_timestamp;
    if (dialogue.live)
        record_read(c->fd, size);
    c->read_decoded |= decoded;
    if (c->delivered_position != before) {
        message_t *last = &c->delivered.items[c->delivered.first + c->delivered.count - 1];
        last->mark = mark_of_last(decoded);
        last->is_marked = !last->mark;
    }
    if (dialogue.journalling)
        c->delivered_digest = has_checksum ? crc32_joined(c->delivered_digest, checksum, (size_t)size)
                                           : digest_on(c->delivered_digest, data);
    note_birth_of_known(dialogue.receive_kind, data, checksum);
    note_call(&(call_t){.connection = (int)(c - dialogue.connections), .time_ns = now_ns, .number = dialogue.count,
                        .pick = dialogue.pick, .size = size, .so_far = c->delivered_bytes,
                        .digest = c->delivered_digest, .woken = woken, .limit = limit});
    spend(now_ns);
    tally.heard++;
    return data;
}

/* At a primary: NULL if there is nothing yet, or it is to be left. */
static PyObject *hear_live(connection_t *c, int64_t limit, bool waited, int64_t now_ns, outcome_t *outcome) {
    *outcome = (waited ? !is_far_ahead() : may_go_on(now_ns)) ? WAIT : LEAVE;
    int64_t there = available(c), size = limit < there ? limit : there;
    if (*outcome == LEAVE || !there)
        return NULL;
    if (!is_readable(c, size)) {
        *outcome = LEAVE;
        return NULL;
    }
    if (waited) {
        record_wake();
        be_picked();
    }
    return deliver(c, size, limit, waited, false, now_ns);
}

/* At a backup: what the log says. */
static PyObject *hear_logged(connection_t *c, int64_t limit, int64_t now_ns, outcome_t *outcome) {
    look_t look;
    entry_t entry;
    int64_t pick;
    bool woken;
    *outcome = next_call(&look, &entry, &pick, &woken);
    if (*outcome != ARRIVED)
        return NULL;
    *outcome = LEAVE;
    if (entry.kind != READ || entry.fd != c->fd || entry.size <= 0 || entry.size > limit || entry.size > available(c) ||
        !is_readable(c, entry.size))
        return NULL;
    bool decoded = has_decoded(&look);
    go_on_from(&look, pick, woken);
    return deliver(c, entry.size, limit, woken, decoded, now_ns);
}

PyObject *hear(connection_t *c, int64_t limit, bool counted) {
    int64_t now_ns = monotonic_ns();
    asked_t asked = {.kind = RECEIVES, .fd = c->fd, .limit = limit, .until_ns = NEVER};
    if (limit <= 0 || !is_here(now_ns) || (counted && !may_be_made(LEVELS_NEEDED)))
        Py_RETURN_NONE;
    for (bool waited = false;; waited = true) {
        outcome_t outcome;
        PyObject *data = dialogue.live ? hear_live(c, limit, waited, now_ns, &outcome)
                                       : hear_logged(c, limit, now_ns, &outcome);
        if (data) {
            receive_is_made();
            if (counted && was_made() < 0)
                Py_CLEAR(data);
            return data;
        }
        if (may_give_way(outcome)) {
            data = wait_in_turn(&asked, &now_ns, &outcome);
            if (outcome != ARRIVED)
                return left_to_others(outcome);
            receive_is_made();
            if (data && counted && was_made() < 0)
                Py_CLEAR(data);
            return data;
        }
        outcome = try_again(outcome, &asked, &now_ns);
        if (outcome != ARRIVED)
            return left_to_others(outcome);
    }
}

/* -- reading what is there --------------------------------------------------------------------------- */

static const uint8_t WOULD_BLOCK[] = {0}; /* as `determinizer.sockets` has it */

static PyObject *find_nothing(connection_t *c, int64_t limit, int64_t now_ns) {
    c->used = true;
    note_birth_of_nothing();
    note_counted(NOTHING_THERE, &c->nothings, false, WOULD_BLOCK, sizeof WOULD_BLOCK, now_ns);
    dialogue.called[dialogue.called_count - 1].connection = (int)(c - dialogue.connections);
    dialogue.called[dialogue.called_count - 1].size = limit;
    spend(now_ns);
    Py_RETURN_TRUE;
}

static PyObject *look_live(connection_t *c, int64_t limit, int64_t now_ns) {
    if (!may_go_on(now_ns))
        return NULL;
    int64_t there = available(c), size = limit < there ? limit : there;
    if (there)
        return is_readable(c, size) ? deliver(c, size, limit, false, false, now_ns) : NULL;
    if (!is_usable(&c->nothings))
        return because(first_of_its_kind), NULL;
    record_socket(&c->nothings, WOULD_BLOCK, sizeof WOULD_BLOCK);
    return find_nothing(c, limit, now_ns);
}

static PyObject *look_logged(connection_t *c, int64_t limit, int64_t now_ns, outcome_t *outcome) {
    look_t look;
    entry_t entry;
    int64_t pick;
    bool woken;
    *outcome = next_call(&look, &entry, &pick, &woken);
    if (*outcome == ARRIVED && !woken && is_counted(&entry, SOCKET, &c->nothings) && entry.data_size == 1 && !*entry.data) {
        go_on_from(&look, pick, false);
        c->nothings.performed++;
        return find_nothing(c, limit, now_ns);
    }
    return *outcome == ARRIVED && !woken ? hear_logged(c, limit, now_ns, outcome) : NULL;
}

PyObject *look(connection_t *c, int64_t limit, bool counted) {
    int64_t now_ns = monotonic_ns();
    asked_t asked = {.kind = LOOKS, .fd = c->fd, .limit = limit, .until_ns = NEVER};
    while (limit > 0 && is_here(now_ns) && (!counted || may_be_made(LEVELS_NEEDED))) {
        outcome_t outcome = LEAVE;
        PyObject *found = dialogue.live ? look_live(c, limit, now_ns) : look_logged(c, limit, now_ns, &outcome);
        if (found) {
            dialogue.called[dialogue.called_count - 1].looked = true;
            receive_is_made();
            if (counted && was_made() < 0)
                Py_CLEAR(found);
            return found;
        }
        outcome = try_again(outcome, &asked, &now_ns);
        if (outcome != ARRIVED)
            return left_to_others(outcome);
    }
    Py_RETURN_NONE;
}

/* -- saying ------------------------------------------------------------------------------------------ */

static message_t *generate(connection_t *c, PyObject *payload, int64_t timestamp, uint32_t digest, int64_t now_ns) {
    message_t *message = add_message(&c->sent);
    c->used = true;
    message->position = ++c->generated;
    message->timestamp = timestamp;
    message->payload = Py_NewRef(payload);
    message->digest = c->sent_digest = digest;
    c->sent_bytes += PyBytes_GET_SIZE(payload);
    note_birth_of_number(dialogue.send_kind, PyBytes_GET_SIZE(payload));
    note_call(&(call_t){.kind = SAID, .connection = (int)(c - dialogue.connections), .time_ns = now_ns,
                        .number = dialogue.count, .pick = dialogue.pick, .position = message->position,
                        .timestamp = timestamp, .size = PyBytes_GET_SIZE(payload), .digest = digest});
    spend(now_ns);
    tally.said++;
    return message;
}

static bool has_window(const connection_t *c) {
    int64_t sent_count = c->sent_count + (int64_t)(c->sent.count - c->collected);
    return sent_count < dialogue.window_messages && c->sent_bytes < dialogue.window_bytes;
}

bool may_say(const connection_t *c, int64_t now_ns) {
    if (!may_go_on(now_ns))
        return false;
    if (!has_window(c))
        return because(window), false;
    if (!may_leave())
        return because(carried), false;
    return may_seek_commit(c, now_ns) || (because(commit), false);
}

bool say_live(connection_t *c, PyObject *payload, int64_t now_ns) {
    if (awaits_answer(c) && !is_calm(now_ns))
        return because(answer_awaited), false; /* the answer may be here: else the next question would wait until the thread does */
    if (!may_say(c, now_ns) || PyBytes_GET_SIZE(payload) > FRAGMENTED_MAX)
        return false;
    cut_t cut = cut_payload(c->sent_digest, payload);
    record_send(c->fd, ++dialogue.clock, cut.digest);
    const message_t *message = generate(c, payload, dialogue.clock, cut.digest, now_ns);
    bool asked = seek_commit(c, now_ns);
    if (multicast_message(c, message, &cut) < 0)
        Py_FatalError("the network cannot be written");
    seek_on(asked, now_ns);
    c->transmitted = message->position;
    c->ack_told = c->received_up_to;
    c->ack_due_ns = NEVER;
    c->said_ns = now_ns;
    c->keep_alive_ns = now_ns + dialogue.keep_alive_interval_ns;
    if (c->retransmit_ns == NEVER)
        c->retransmit_ns = now_ns + dialogue.retransmit_interval_ns;
    return true;
}

static outcome_t say_logged(connection_t *c, PyObject *payload, int64_t now_ns) {
    look_t look;
    entry_t entry;
    int64_t pick;
    bool woken;
    outcome_t outcome = next_call(&look, &entry, &pick, &woken);
    if (outcome != ARRIVED)
        return outcome;
    uint32_t digest = digest_on(c->sent_digest, payload);
    if (woken || entry.kind != SEND || entry.fd != c->fd || entry.digest != digest)
        return because(other_entry), LEAVE;
    c->sends_decoded += has_decoded(&look);
    go_on_from(&look, pick, false);
    if (entry.timestamp > dialogue.clock)
        dialogue.clock = entry.timestamp;
    generate(c, payload, entry.timestamp, digest, now_ns);
    return ARRIVED;
}

PyObject *say(connection_t *c, PyObject *payload, bool patient, bool counted) {
    int64_t now_ns = monotonic_ns();
    asked_t asked = {.kind = SENDS, .fd = c->fd, .payload = payload, .is_patient = patient, .until_ns = NEVER};
    while (is_here(now_ns) && (!counted || may_be_made(LEVELS_NEEDED))) {
        outcome_t outcome = dialogue.live ? (say_live(c, payload, now_ns) ? ARRIVED : LEAVE)
                                          : say_logged(c, payload, now_ns);
        if (outcome == ARRIVED)
            return counted && was_made() < 0 ? NULL : Py_NewRef(Py_True);
        outcome = try_again(outcome, &asked, &now_ns);
        if (outcome != ARRIVED)
            return left_to_others(outcome);
    }
    Py_RETURN_NONE;
}

/* -- selecting --------------------------------------------------------------------------------------- */

/* Descriptors that were found: readable ones first, writable ones negative. */
typedef struct {
    int64_t fds[2 * FDS_MAX];
    Py_ssize_t count, readable;
} found_t;

/* Its descriptor at a place of a tuple; -1: no number. */
static int64_t fd_at(PyObject *fds, Py_ssize_t at) {
    PyObject *item = PyTuple_GET_ITEM(fds, at);
    int overflow;
    long long fd = PyLong_CheckExact(item) ? PyLong_AsLongLongAndOverflow(item, &overflow) : -1;
    return fd >= 0 ? fd : -1; /* too large is negative too */
}

static bool are_lent(PyObject *fds, bool reading) {
    if (PyTuple_GET_SIZE(fds) > FDS_MAX)
        return false;
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(fds); at++) {
        int64_t fd = fd_at(fds, at);
        /* The listener's news come to the core, and end the dialogue. */
        if (fd < 0 || !(connection_of_fd(fd) || (reading && fd == LISTENER)))
            return false;
    }
    return true;
}

static void find_ready(PyObject *fds, PyObject *writing, found_t *found) {
    found->count = 0;
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(fds); at++) {
        const connection_t *c = connection_of_fd(fd_at(fds, at));
        if (c && available(c))
            found->fds[found->count++] = c->fd;
    }
    found->readable = found->count;
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(writing); at++) {
        const connection_t *c = connection_of_fd(fd_at(writing, at));
        if (has_window(c))
            found->fds[found->count++] = -c->fd;
    }
}

static size_t put_found(const found_t *found, uint8_t *data) {
    static bytes_t out;
    out.size = 0;
    bool has_writable = found->count > found->readable;
    *grow(&out, 1) = has_writable ? SELECTED_WRITABLE_TAG : SELECTED_TAG;
    if (has_writable)
        put_uvarint(&out, (uint64_t)found->readable);
    for (Py_ssize_t at = 0; at < found->count; at++)
        put_uvarint(&out, (uint64_t)(found->fds[at] < 0 ? -found->fds[at] : found->fds[at]));
    memcpy(data, out.data, out.size);
    return out.size;
}

static bool has_fd(PyObject *fds, int64_t fd) {
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(fds); at++)
        if (fd_at(fds, at) == fd)
            return true;
    return false;
}

/* What an entry says; false: it is for the core. */
static bool get_found(const entry_t *entry, PyObject *fds, PyObject *writing, found_t *found) {
    const uint8_t *at = entry->data, *end = at + entry->data_size;
    uint64_t number, readable = UINT64_MAX;
    found->count = 0;
    if (at == end || (*at != SELECTED_TAG && *at != SELECTED_WRITABLE_TAG))
        return false;
    if (*at++ == SELECTED_WRITABLE_TAG && !(at = get_uvarint(at, end, &readable)))
        return false;
    while (at < end) {
        if (found->count == 2 * FDS_MAX || !(at = get_uvarint(at, end, &number)) || number > INT32_MAX)
            return false;
        bool is_readable = (uint64_t)found->count < readable;
        if (!has_fd(is_readable ? fds : writing, (int64_t)number))
            return false;
        found->fds[found->count++] = is_readable ? (int64_t)number : -(int64_t)number;
    }
    return readable == UINT64_MAX || (uint64_t)found->count > readable;
}

static PyObject *as_tuple(const found_t *found) {
    PyObject *tuple = PyTuple_New(found->count);
    for (Py_ssize_t at = 0; tuple && at < found->count; at++) {
        PyObject *fd = PyLong_FromLongLong(found->fds[at]);
        if (!fd)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, at, fd);
    }
    return tuple;
}

static count_of *count_of_select(const asked_t *asked) {
    if (asked->is_interruptible)
        return count_of_selects();
    PyObject *fds = PyTuple_GET_SIZE(asked->fds) ? asked->fds : asked->writing;
    connection_t *c = PyTuple_GET_SIZE(fds) ? connection_of_fd(fd_at(fds, 0)) : NULL;
    return c ? &c->nothings : NULL;
}

/* The select is made, and this is told of it. */
static void note_select(const asked_t *asked, const found_t *found, const count_of *count, bool woken,
                        const uint8_t *data, size_t size, int64_t now_ns) {
    connection_t *c = asked->is_interruptible ? NULL : connection_of_fd(count->identifier);
    if (c)
        c->used = true;
    note_birth_of_fds(found->fds, found->count);
    note_counted(asked->is_interruptible ? SELECTED : SELECTED_ON_SOCKET, count, woken, data, size, now_ns);
    spend(now_ns);
    tally.selected++;
}

static PyObject *choose_live(const asked_t *asked, count_of *count, bool waited, int64_t now_ns, outcome_t *outcome) {
    found_t found;
    uint8_t data[SELECTED_BYTES];
    bool only_looks = asked->until_ns <= now_ns && !waited;
    *outcome = LEAVE;
    if (is_far_ahead())
        return because(far_ahead), NULL;
    if (!waited && (is_spent() || only_looks) && !is_calm(now_ns))
        return because(not_calm), NULL;
    if (!waited && is_spent() && somebody_could_go_on())
        return because(somebody_else), NULL;
    find_ready(asked->fds, asked->writing, &found);
    *outcome = WAIT;
    if (!found.count && now_ns < asked->until_ns)
        return NULL;
    PyObject *result = as_tuple(&found);
    if (!result)
        return NULL;
    if (waited) {
        record_wake();
        be_picked();
    }
    size_t size = put_found(&found, data);
    (asked->is_interruptible ? record_general : record_socket)(count, data, size);
    note_select(asked, &found, count, waited, data, size, now_ns);
    return result;
}

static PyObject *choose_logged(const asked_t *asked, count_of *count, int64_t now_ns, outcome_t *outcome) {
    look_t look;
    entry_t entry;
    found_t found;
    uint8_t data[SELECTED_BYTES];
    int64_t pick;
    bool woken;
    *outcome = next_call(&look, &entry, &pick, &woken);
    if (*outcome != ARRIVED)
        return NULL;
    *outcome = LEAVE;
    if (!is_counted(&entry, asked->is_interruptible ? GENERAL : SOCKET, count) || entry.data_size > sizeof data ||
        !get_found(&entry, asked->fds, asked->writing, &found))
        return NULL;
    PyObject *result = as_tuple(&found);
    if (!result)
        return NULL;
    memcpy(data, entry.data, entry.data_size);
    go_on_from(&look, pick, woken);
    count->performed++;
    note_select(asked, &found, count, woken, data, entry.data_size, now_ns);
    return result;
}

int64_t left_of(const asked_t *asked) {
    int64_t left_ns = asked->until_ns - monotonic_ns();
    if (asked->until_ns == NEVER)
        return -1;
    return left_ns > asked->least_ns ? left_ns : asked->least_ns;
}

/* Left or handed over, it would be another call than the one that the program made: for less time. */
static bool is_witnessed_in_time(int64_t timeout_ns) { return dialogue.witnessed && timeout_ns > 0; }

PyObject *choose(PyObject *fds, PyObject *writing, int64_t timeout_ns, bool interruptible, bool counted) {
    int64_t now_ns = monotonic_ns();
    bool is_endless = timeout_ns < 0 || timeout_ns >= NEVER - now_ns;
    asked_t asked = {.kind = SELECTS, .fds = fds, .writing = writing, .is_interruptible = interruptible,
                     .timeout_ns = timeout_ns, .until_ns = is_endless ? NEVER : now_ns + timeout_ns,
                     .least_ns = timeout_ns > 0};
    if (!is_here(now_ns) || (counted && !may_be_made(LEVELS_NEEDED)) || is_witnessed_in_time(timeout_ns))
        return PyLong_FromLongLong(timeout_ns);
    if (!are_lent(fds, true) || !are_lent(writing, false))
        return because(not_lent), PyLong_FromLongLong(timeout_ns);
    count_of *count = count_of_select(&asked);
    if (!count || !is_usable(count))
        return because(first_of_its_kind), PyLong_FromLongLong(timeout_ns);
    for (bool waited = false;; waited = true) {
        outcome_t outcome;
        PyObject *result = dialogue.live ? choose_live(&asked, count, waited, now_ns, &outcome)
                                         : choose_logged(&asked, count, now_ns, &outcome);
        if (result) {
            if (dialogue.witnessed)
                note_witnessed(fds, timeout_ns, writing, interruptible);
            if (counted && was_made() < 0)
                Py_CLEAR(result);
            return result;
        }
        if (PyErr_Occurred())
            return NULL;
        if (timeout_ns && may_give_way(outcome)) {
            result = wait_in_turn(&asked, &now_ns, &outcome);
            if (outcome == ARRIVED && result && counted && was_made() < 0)
                Py_CLEAR(result);
            if (outcome == ARRIVED)
                return result;
        } else {
            outcome = try_again(outcome, &asked, &now_ns);
        }
        if (outcome != ARRIVED)
            return outcome == HANDED ? Py_NewRef(handed) : PyLong_FromLongLong(left_of(&asked));
    }
}

/* -- of whoever waits -------------------------------------------------------------------------------- */

/* Whether what a thread waits for is here. */
bool is_ready(const asked_t *asked) {
    found_t found;
    if (asked->kind == RECEIVES)
        return connection_of_fd(asked->fd) && available(connection_of_fd(asked->fd)) > 0;
    if (asked->kind != SELECTS)
        return false;
    find_ready(asked->fds, asked->writing, &found);
    return found.count > 0;
}

/* The call of the thread that runs, once more: NULL if it waits on, or is to be left. `waited`: it is to be woken for
 * it, and picked. */
PyObject *make_waiting_call(const asked_t *asked, bool waited, int64_t now_ns, outcome_t *outcome) {
    count_of *count = asked->kind == SELECTS ? count_of_select(asked) : NULL;
    *outcome = LEAVE;
    if (asked->kind == RECEIVES) {
        connection_t *c = connection_of_fd(asked->fd);
        if (!c)
            return NULL;
        return dialogue.live ? hear_live(c, asked->limit, waited, now_ns, outcome)
                             : hear_logged(c, asked->limit, now_ns, outcome);
    }
    if (!count || !is_usable(count))
        return NULL;
    return dialogue.live ? choose_live(asked, count, waited, now_ns, outcome)
                         : choose_logged(asked, count, now_ns, outcome);
}

/* -- reading the clock ------------------------------------------------------------------------------- */

static outcome_t read_live(int clock_id, int64_t local, int64_t now_ns, int64_t *value) {
    clock_of *clock = &dialogue.clocks[clock_id];
    if (!may_go_on(now_ns) || __builtin_add_overflow(local, clock->offset, value) || *value < clock->last)
        return LEAVE;
    record_time(clock_id, *value);
    return ARRIVED;
}

static outcome_t read_logged(int clock_id, int64_t local, int64_t *value) {
    look_t look;
    entry_t entry;
    int64_t pick;
    bool woken;
    outcome_t outcome = next_call(&look, &entry, &pick, &woken);
    if (outcome != ARRIVED)
        return outcome;
    if (woken || entry.kind != TIME || entry.clock_id != clock_id || entry.value < dialogue.clocks[clock_id].last)
        return because(other_entry), LEAVE;
    if (has_decoded(&look))
        dialogue.clocks[clock_id].coded = entry.value;
    go_on_from(&look, pick, false);
    *value = entry.value;
    dialogue.clocks[clock_id].local = local;
    return ARRIVED;
}

/* At a backup the reading may not have come yet. */
int read_clock_in_dialogue(int clock_id, int64_t *value, bool counted) {
    struct timespec now;
    asked_t asked = {.kind = READS, .fd = clock_id, .until_ns = NEVER};
    if (!dialogue.ident || (counted && !may_be_made(LEVELS_NEEDED)))
        return 0;
    for (;;) {
        if (clock_gettime(clock_id, &now))
            return 0;
        int64_t local = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
        int64_t now_ns = clock_id == CLOCK_MONOTONIC ? local : monotonic_ns();
        if (!is_here(now_ns))
            return 0;
        outcome_t outcome = dialogue.live ? read_live(clock_id, local, now_ns, value) : read_logged(clock_id, local, value);
        if (outcome == ARRIVED) {
            dialogue.clocks[clock_id].last = *value;
            note_birth_of_number(dialogue.clock_kind, *value);
            note_call(&(call_t){.kind = READING, .time_ns = now_ns, .number = dialogue.count, .pick = dialogue.pick,
                                .timestamp = *value, .clock_id = clock_id});
            spend(now_ns);
            return counted && was_made() < 0 ? -1 : 1;
        }
        outcome = try_again(outcome, &asked, &now_ns);
        if (outcome != ARRIVED)
            return outcome == HANDED ? READ_BY_CORE : 0;
    }
}

/* -- random bytes ------------------------------------------------------------------------------------ */

/* Where the kernel has none at once, the usual way waits for it. */
static bool draw_live(PyObject *data, int64_t now_ns) {
    size_t size = (size_t)PyBytes_GET_SIZE(data);
    uint8_t *bytes = (uint8_t *)PyBytes_AS_STRING(data);
    if (!is_usable(&dialogue.generals[RANDOM_COUNT]))
        return because(first_of_its_kind), false;
    if (!may_go_on(now_ns) || getrandom(bytes, size, GRND_NONBLOCK) != (ssize_t)size)
        return false;
    record_general(&dialogue.generals[RANDOM_COUNT], bytes, size);
    return true;
}

static outcome_t draw_logged(PyObject *data) {
    look_t look;
    entry_t entry;
    int64_t pick;
    bool woken;
    count_of *count = &dialogue.generals[RANDOM_COUNT];
    outcome_t outcome = next_call(&look, &entry, &pick, &woken);
    if (outcome != ARRIVED)
        return outcome;
    if (woken || !is_counted(&entry, GENERAL, count) || entry.data_size != (size_t)PyBytes_GET_SIZE(data))
        return because(other_entry), LEAVE;
    memcpy(PyBytes_AS_STRING(data), entry.data, entry.data_size);
    go_on_from(&look, pick, false);
    count->performed++;
    return ARRIVED;
}

static PyObject *note_drawn(PyObject *data, bool counted, int64_t now_ns) {
    size_t size = (size_t)PyBytes_GET_SIZE(data);
    note_birth_of_bytes(dialogue.random_kind, data);
    note_counted(DRAWN, &dialogue.generals[RANDOM_COUNT], false, (const uint8_t *)PyBytes_AS_STRING(data), size, now_ns);
    dialogue.called[dialogue.called_count - 1].size = (int64_t)size;
    spend(now_ns);
    if (counted && was_made() < 0)
        Py_CLEAR(data);
    return data;
}

PyObject *draw_in_dialogue(Py_ssize_t size, bool counted) {
    int64_t now_ns = monotonic_ns();
    asked_t asked = {.kind = DRAWS, .limit = size, .until_ns = NEVER};
    PyObject *data = PyBytes_FromStringAndSize(NULL, size);
    while (data && is_here(now_ns) && (!counted || may_be_made(LEVELS_NEEDED))) {
        outcome_t outcome = dialogue.live ? (draw_live(data, now_ns) ? ARRIVED : LEAVE) : draw_logged(data);
        if (outcome == ARRIVED)
            return note_drawn(data, counted, now_ns);
        outcome = try_again(outcome, &asked, &now_ns);
        if (outcome == HANDED)
            return Py_DECREF(data), Py_NewRef(handed);
        if (outcome != ARRIVED)
            break;
    }
    PyErr_Clear();
    Py_XDECREF(data);
    return NULL;
}
