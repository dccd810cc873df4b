/* A message of one of the dialogue's connections: taken as it comes, made as it leaves. The twin of
 * `core.messaging.lane`, which has the paper's lines.
 *
 * Law: what is not the very next message, or brings what does not follow what is here, is not touched: the core
 * gets it whole. */

#include "dialogue.h"

#include <string.h>

enum { TO_GROUP = 0, ENTRIES_BYTES = 64 /* of one call, at the most */ };

/* -- which connection -------------------------------------------------------------------------------- */

static unsigned place_of_fd(int64_t fd) { return (unsigned)fd % PLACES; }

static unsigned place_of_prefix(const uint8_t *prefix) {
    uint64_t hash = 0;
    for (int at = 0; at < PREFIX_BYTES; at += (int)sizeof hash) {
        uint64_t word;
        memcpy(&word, prefix + at, sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return (unsigned)(hash >> 32) % PLACES;
}

static void place(int16_t *places, unsigned at, int index) {
    while (places[at] >= 0)
        at = (at + 1) % PLACES;
    places[at] = (int16_t)index;
}

void place_connections(void) {
    memset(dialogue.by_fd, -1, sizeof dialogue.by_fd);
    memset(dialogue.by_prefix, -1, sizeof dialogue.by_prefix);
    for (int at = 0; at < dialogue.connection_count; at++) {
        place(dialogue.by_fd, place_of_fd(dialogue.connections[at].fd), at);
        place(dialogue.by_prefix, place_of_prefix(dialogue.connections[at].in_prefix), at);
    }
}

connection_t *connection_of_fd(int64_t fd) {
    for (unsigned at = place_of_fd(fd); dialogue.by_fd[at] >= 0; at = (at + 1) % PLACES)
        if (dialogue.connections[dialogue.by_fd[at]].fd == fd)
            return &dialogue.connections[dialogue.by_fd[at]];
    return NULL;
}

connection_t *connection_of_prefix(const uint8_t *prefix) {
    if (dialogue.connection_count == 1)
        return memcmp(prefix, dialogue.connections[0].in_prefix, PREFIX_BYTES) ? NULL : &dialogue.connections[0];
    for (unsigned at = place_of_prefix(prefix); dialogue.by_prefix[at] >= 0; at = (at + 1) % PLACES)
        if (!memcmp(prefix, dialogue.connections[dialogue.by_prefix[at]].in_prefix, PREFIX_BYTES))
            return &dialogue.connections[dialogue.by_prefix[at]];
    return NULL;
}

/* -- taken ------------------------------------------------------------------------------------------- */

/* What is held goes on from where it ends, and has room. */
static bool can_be_held(const remote_t *remote, int64_t start, int64_t size) {
    int64_t end = remote->base + (int64_t)remote->held.size;
    if ((int64_t)remote->held.size + size > remote->limit)
        return false;
    return remote->base < 0 || (remote->base <= start && start <= end);
}

static bool is_expected(const connection_t *c, const dynamic_t *dynamic, size_t size) {
    size_t rest = HEADER_BYTES + (size_t)dynamic->order_length + dynamic->reflected_length;
    if (c->in_base + (int64_t)dynamic->msg_seq_num != c->received_up_to + 1)
        return false;
    if (dynamic->flags | dynamic->fragment_index || dynamic->fragment_count != 1)
        return false;
    if (dynamic->ack_view_num != (uint32_t)c->out_view_num || !dynamic->payload_length)
        return false;
    if (size != rest + dynamic->payload_length)
        return false;
    if (has_absurd_numbers(dynamic))
        return false;
    if (dynamic->order_length &&
        !can_be_held(&dialogue.remotes[c->remote], (int64_t)dynamic->order_start, dynamic->order_length))
        return false;
    if (dynamic->reflected_length && (int64_t)dynamic->reflected_start >
                                         (dialogue.live ? dialogue.unreflected : order_end()))
        return false;
    return true;
}

static void hold(remote_t *remote, int64_t start, const uint8_t *data, size_t size) {
    if (remote->base < 0)
        remote->base = remote->unreflected = start;
    int64_t end = remote->base + (int64_t)remote->held.size, behind = start + (int64_t)size;
    if (behind > end)
        put_bytes(&remote->held, data + (end - start), (size_t)(behind - end));
}

static void on_held_watermark(remote_t *remote, int64_t watermark) {
    if (watermark <= remote->watermark)
        return;
    remote->watermark = watermark;
    if (remote->base < 0 || watermark <= remote->base)
        return;
    int64_t end = remote->base + (int64_t)remote->held.size;
    int64_t upto = watermark < end ? watermark : end;
    drop_front(&remote->held, (size_t)(upto - remote->base));
    remote->base = upto;
    if (remote->unreflected < upto)
        remote->unreflected = upto;
    if (!remote->held.size)
        remote->base = -1;
}

static void on_reflected(int64_t start, const uint8_t *data, size_t size) {
    int64_t end = order_end(), behind = start + (int64_t)size;
    if (dialogue.live) { /* a primary need not carry it any more, a backup learns it */
        if (behind > end)
            behind = end;
        if (behind > dialogue.unreflected)
            dialogue.unreflected = behind;
    } else if (behind > end) {
        put_bytes(&dialogue.orders, data + (end - start), (size_t)(behind - end));
    }
}

static void on_ack(connection_t *c, int64_t acked) {
    if (acked <= c->acked_in_view)
        return;
    c->acked_in_view = acked;
    if (acked > c->acked) {
        c->acked = acked;
        if (acked >= c->transmitted)
            c->retransmit_ns = NEVER; /* the next message has its whole interval */
    }
}

/* What all members of the remote group have is not told to the core; the last of it says up to where that is. A
 * witness is told of all that was said. */
static void collect_sent(connection_t *c) {
    messages_t *sent = &c->sent;
    while (!dialogue.witnessed && sent->count > 1 && sent->items[sent->first + 1].timestamp <= c->remote_watermark) {
        PyObject *payload = sent->items[sent->first].payload;
        c->sent_bytes -= PyBytes_GET_SIZE(payload);
        Py_DECREF(payload);
        sent->first++;
        sent->count--;
    }
}

static void receive_message(connection_t *c, const dynamic_t *dynamic, PyObject *payload, int64_t now_ns) {
    int64_t position = ++c->received_up_to;
    c->received_bytes += dynamic->payload_length;
    message_t *message = add_message(&c->received);
    message->position = position;
    message->timestamp = (int64_t)dynamic->timestamp;
    message->order_end = (int64_t)dynamic->order_start + dynamic->order_length;
    message->payload = payload;
    int64_t delay_ns = position == c->ack_told + 1 ? dialogue.ack_patience_ns : dialogue.ack_delay_ns;
    c->heard_ns = dialogue.heard_ns = now_ns;
    if (now_ns + delay_ns < c->ack_due_ns)
        c->ack_due_ns = now_ns + delay_ns;
    on_ack(c, c->out_base + dynamic->ack);
    if ((int64_t)dynamic->back > c->remote_watermark) {
        c->remote_watermark = (int64_t)dynamic->back;
        collect_sent(c);
    }
}

bool take_datagram(const datagram_taken *taken, int64_t now_ns) {
    dynamic_t dynamic;
    if (taken->channel != TO_GROUP || taken->size < HEADER_BYTES)
        return false;
    connection_t *c = connection_of_prefix(taken->data);
    if (!c)
        return false;
    remote_t *remote = &dialogue.remotes[c->remote];
    if ((int64_t)taken->number <= remote->newest ||
        memcmp(taken->identity + DATAGRAMS_BIRTH_IN_IDENTITY, remote->birth, DATAGRAMS_BIRTH_BYTES))
        return false;
    memcpy(&dynamic, taken->data + PREFIX_BYTES, sizeof dynamic);
    if (!is_expected(c, &dynamic, taken->size))
        return false;
    const uint8_t *orders = taken->data + HEADER_BYTES, *reflected = orders + dynamic.order_length;
    PyObject *payload = PyBytes_FromStringAndSize((const char *)reflected + dynamic.reflected_length,
                                                  (Py_ssize_t)dynamic.payload_length);
    if (!payload) {
        PyErr_Clear();
        return false; /* the core may have more luck, or says so */
    }
    c->used = remote->used = true;
    remote->newest = (int64_t)taken->number;
    put_bytes(&remote->numbers, &taken->number, sizeof taken->number);
    receive_message(c, &dynamic, payload, now_ns);
    if (dynamic.order_length)
        hold(remote, (int64_t)dynamic.order_start, orders, dynamic.order_length);
    on_held_watermark(remote, (int64_t)dynamic.watermark);
    if ((int64_t)dynamic.committed > remote->committed)
        remote->committed = (int64_t)dynamic.committed;
    if (dynamic.reflected_length)
        on_reflected((int64_t)dynamic.reflected_start, reflected, dynamic.reflected_length);
    return true;
}

/* -- made -------------------------------------------------------------------------------------------- */

/* In one datagram, with all the order information that it has to carry, and not more of that than one may. */
bool fits(size_t payload_size) {
    int64_t carried = order_end() - dialogue.unreflected;
    int64_t room = dialogue.datagram_bytes - HEADER_BYTES - carried - ENTRIES_BYTES - dialogue.order_carried_bytes / 2;
    return carried + ENTRIES_BYTES <= dialogue.order_carried_bytes && (int64_t)payload_size <= room;
}

static size_t next_reflection(remote_t *remote, int64_t *start, const uint8_t **data) {
    int64_t end = remote->base + (int64_t)remote->held.size, most = dialogue.order_carried_bytes / 2;
    *start = 0;
    *data = NULL;
    if (remote->base < 0 || remote->unreflected >= end)
        return 0;
    int64_t size = end - remote->unreflected;
    if (size > most)
        size = most;
    *start = remote->unreflected;
    *data = remote->held.data + (remote->unreflected - remote->base);
    remote->unreflected += size;
    return (size_t)size;
}

int multicast_message(connection_t *c, const message_t *message) {
    remote_t *remote = &dialogue.remotes[c->remote];
    const uint8_t *reflected;
    int64_t reflected_start, ack = c->received_up_to - c->in_base;
    size_t reflected_size = next_reflection(remote, &reflected_start, &reflected);
    size_t order_at = (size_t)(dialogue.unreflected - dialogue.order_base);
    if (dialogue.commits_as_it_leaves && dialogue.order_committed < order_end())
        dialogue.order_committed = order_end();
    remote->used = true;
    dynamic_t dynamic = {
        .fragment_count = 1,
        .order_length = (uint16_t)(dialogue.orders.size - order_at),
        .reflected_length = (uint16_t)reflected_size,
        .msg_seq_num = (uint32_t)(message->position - c->out_base),
        .ack_view_num = (uint32_t)c->in_view_num,
        .ack = (uint32_t)(ack > 0 ? ack : 0),
        .payload_length = (uint32_t)PyBytes_GET_SIZE(message->payload),
        .back = (uint64_t)c->members_timestamp,
        .timestamp = (uint64_t)message->timestamp,
        .watermark = (uint64_t)dialogue.group_watermark,
        .committed = (uint64_t)dialogue.order_committed,
        .order_start = (uint64_t)dialogue.unreflected,
        .reflected_start = (uint64_t)reflected_start,
    };
    struct iovec pieces[] = {
        {c->out_prefix, PREFIX_BYTES},
        {&dynamic, sizeof dynamic},
        {dialogue.orders.data + order_at, dialogue.orders.size - order_at},
        {(void *)reflected, reflected_size},
        {PyBytes_AS_STRING(message->payload), (size_t)PyBytes_GET_SIZE(message->payload)},
    };
    return datagram->send(dialogue.datagrams, pieces, 5, TO_GROUP, remote->to, remote->to_count);
}
