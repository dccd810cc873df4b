/* A message of one of the dialogue's connections: taken as it comes, made as it leaves. The twin of
 * `core.messaging.lane`, which has the paper's lines.
 *
 * Law: what is not the very next message, or brings what does not follow what is here, is not touched: the core
 * gets it whole. */

#include "dialogue.h"

#include <string.h>

#include "../wire/crc32.h"

enum {
    TO_GROUP = 0,
    ENTRIES_BYTES = 64, /* of one call, at the most */
    TYPE_AT = 1,        /* as wire.header has it */
    REQUEST = 1,        /* as wire.messages has them */
    REPLY = 2,
    KEEP_ALIVE = 7,
    MOMENT_NS = 1000000,
};

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

/* What is held goes on from where it ends, and has room. What all members of that group have need not be. */
static bool can_be_held(const remote_t *remote, int64_t start, int64_t size) {
    int64_t end = remote->base + (int64_t)remote->held.size;
    if (start < remote->watermark)
        start = remote->watermark;
    if ((int64_t)remote->held.size + size > remote->limit)
        return false;
    return remote->base < 0 || (remote->base <= start && start <= end);
}

/* There is a gap before it, and all members of that group have what is missing, and what is held as well. */
static bool begins_anew(const remote_t *remote, const dynamic_t *dynamic) {
    int64_t end = remote->base + (int64_t)remote->held.size, start = (int64_t)dynamic->order_start;
    return remote->base >= 0 && start > end && (int64_t)dynamic->watermark >= start &&
           (int64_t)remote->held.size + dynamic->order_length <= remote->limit;
}

/* What any message brings besides its payload. */
static bool can_be_taken(const connection_t *c, const dynamic_t *dynamic, size_t size) {
    size_t rest = HEADER_BYTES + (size_t)dynamic->order_length + dynamic->reflected_length;
    if (dynamic->flags || dynamic->ack_view_num != (uint32_t)c->out_view_num)
        return false;
    if (size != rest + dynamic->payload_length)
        return false;
    if (has_absurd_numbers(dynamic))
        return false;
    const remote_t *remote = &dialogue.remotes[c->remote];
    if (dynamic->order_length && !begins_anew(remote, dynamic) &&
        !can_be_held(remote, (int64_t)dynamic->order_start, dynamic->order_length))
        return false;
    if (dynamic->reflected_length && (int64_t)dynamic->reflected_start >
                                         (dialogue.live ? dialogue.unreflected : order_end()))
        return false;
    return true;
}

static bool is_expected(const connection_t *c, const dynamic_t *dynamic, size_t size) {
    if (c->in_base + (int64_t)dynamic->msg_seq_num != c->received_up_to + 1)
        return false;
    if ((dynamic->fragment_index || dynamic->fragment_count != 1 || c->partial.payload) &&
        !follows(&c->partial, dynamic->fragment_index, dynamic->fragment_count, dynamic->payload_length))
        return false;
    return dynamic->payload_length && can_be_taken(c, dynamic, size);
}

static void hold(remote_t *remote, int64_t start, const uint8_t *data, size_t size) {
    size_t known = start < remote->watermark ? (size_t)(remote->watermark - start) : 0;
    if (known >= size)
        return;
    start += (int64_t)known;
    data += known;
    size -= known;
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

static void receive_message(connection_t *c, const dynamic_t *dynamic, const message_t *whole, int64_t now_ns) {
    int64_t position = ++c->received_up_to;
    c->received_bytes += PyBytes_GET_SIZE(whole->payload);
    message_t *message = add_received(c);
    *message = *whole;
    message->position = position;
    message->timestamp = (int64_t)dynamic->timestamp;
    message->order_end = (int64_t)dynamic->order_start + dynamic->order_length;
    int64_t delay_ns = position == c->ack_told + 1 ? dialogue.ack_patience_ns : dialogue.ack_delay_ns;
    if (now_ns + delay_ns < c->ack_due_ns)
        c->ack_due_ns = now_ns + delay_ns;
    c->has_told_ack = false;
}

/* The payload of a datagram. The envelope's checksum is of all that comes before it, too. */
static part_t part_of(const datagram_taken *taken, const uint8_t *data, size_t size) {
    part_t part = {.data = data, .size = size, .has_checksum = taken->has_checksum && size >= LARGE_BYTES};
    if (part.has_checksum)
        part.checksum = crc32_behind(crc32_of(taken->start, (size_t)(data - taken->start)), taken->checksum, size);
    return part;
}

/* What it brings; the message's payload is NULL, and stays so, if more of it has to come. */
static bool take_payload(connection_t *c, const dynamic_t *dynamic, const part_t *part, message_t *message) {
    *message = (message_t){.has_checksum = part->has_checksum, .checksum = part->checksum};
    if (dynamic->fragment_count != 1)
        return add_fragment(&c->partial, dynamic->fragment_count, part, message);
    message->payload = PyBytes_FromStringAndSize((const char *)part->data, (Py_ssize_t)part->size);
    PyErr_Clear();
    return message->payload;
}

/* What all members of the remote group have is in the window no more, and with the first message of this dialogue
 * all that were sent before it. */
static void leave_window(connection_t *c) {
    for (; c->collected < c->sent.count; c->collected++) {
        const message_t *message = &c->sent.items[c->sent.first + c->collected];
        if (message->timestamp > c->remote_watermark)
            return;
        c->sent_bytes -= PyBytes_GET_SIZE(message->payload) + c->sent_bytes_before;
        c->sent_count = c->sent_bytes_before = 0;
    }
}

/* Nor is the core told of it, but for the last one, which says up to where that is. A witness is told of all that
 * was said. */
static void collect_sent(connection_t *c) {
    messages_t *sent = &c->sent;
    for (; c->collected > 1 && !dialogue.witnessed; c->collected--) {
        Py_DECREF(sent->items[sent->first].payload);
        sent->first++;
        sent->count--;
    }
}

static void on_remote_watermark(connection_t *c, int64_t watermark) {
    if (watermark <= c->remote_watermark)
        return;
    c->remote_watermark = watermark;
    leave_window(c);
    collect_sent(c);
}

/* The connection that begins so, if it comes from the primary at its other end, and for the first time. */
static connection_t *connection_of(const datagram_taken *taken, const uint8_t *prefix) {
    connection_t *c = connection_of_prefix(prefix);
    const remote_t *remote = c ? &dialogue.remotes[c->remote] : NULL;
    if (!c || (int64_t)taken->number <= remote->newest ||
        memcmp(taken->identity + DATAGRAMS_BIRTH_IN_IDENTITY, remote->birth, DATAGRAMS_BIRTH_BYTES))
        return NULL;
    return c;
}

static void note_taken(connection_t *c, const datagram_taken *taken, int64_t now_ns) {
    remote_t *remote = &dialogue.remotes[c->remote];
    c->used = remote->used = true;
    remote->newest = (int64_t)taken->number;
    put_bytes(&remote->numbers, &taken->number, sizeof taken->number);
    c->heard_ns = dialogue.heard_ns = now_ns;
}

/* `orders`: what is behind the header. */
static void take_piggyback(connection_t *c, const dynamic_t *dynamic, const uint8_t *orders) {
    remote_t *remote = &dialogue.remotes[c->remote];
    on_ack(c, c->out_base + dynamic->ack);
    on_remote_watermark(c, (int64_t)dynamic->back);
    if (dynamic->order_length && begins_anew(remote, dynamic))
        on_held_watermark(remote, (int64_t)dynamic->order_start);
    if (dynamic->order_length)
        hold(remote, (int64_t)dynamic->order_start, orders, dynamic->order_length);
    on_held_watermark(remote, (int64_t)dynamic->watermark);
    if ((int64_t)dynamic->committed > remote->committed)
        remote->committed = (int64_t)dynamic->committed;
    if (dynamic->reflected_length)
        on_reflected((int64_t)dynamic->reflected_start, orders + dynamic->order_length, dynamic->reflected_length);
}

/* What of ours has not been acknowledged left a moment ago; else it may be lost, and that is for the core (D-44). */
static bool is_under_way(const connection_t *c, int64_t acked, int64_t now_ns) {
    int64_t left_ns = c->retransmit_ns - dialogue.retransmit_interval_ns;
    return acked >= c->transmitted || c->retransmit_ns == NEVER || now_ns - left_ns < MOMENT_NS;
}

/* It begins like any message of its connection, but for its type. */
static connection_t *connection_kept_alive(const datagram_taken *taken) {
    uint8_t prefix[PREFIX_BYTES];
    memcpy(prefix, taken->data, PREFIX_BYTES);
    prefix[TYPE_AT] = REPLY;
    connection_t *c = connection_of(taken, prefix);
    prefix[TYPE_AT] = REQUEST;
    return c ? c : connection_of(taken, prefix);
}

bool take_keep_alive(const datagram_taken *taken, int64_t now_ns) {
    dynamic_t dynamic;
    if (taken->channel != TO_GROUP || taken->size < HEADER_BYTES || taken->data[TYPE_AT] != KEEP_ALIVE)
        return false;
    connection_t *c = connection_kept_alive(taken);
    memcpy(&dynamic, taken->data + PREFIX_BYTES, sizeof dynamic);
    if (!c || dynamic.payload_length || dynamic.fragment_index || dynamic.fragment_count != 1 ||
        !can_be_taken(c, &dynamic, taken->size) || c->in_base + (int64_t)dynamic.msg_seq_num > c->received_up_to ||
        !is_under_way(c, c->out_base + dynamic.ack, now_ns))
        return false;
    note_taken(c, taken, now_ns);
    take_piggyback(c, &dynamic, taken->data + HEADER_BYTES);
    return true;
}

bool take_datagram(const datagram_taken *taken, int64_t now_ns) {
    dynamic_t dynamic;
    if (taken->channel != TO_GROUP || taken->size < HEADER_BYTES)
        return false;
    connection_t *c = connection_of(taken, taken->data);
    if (!c)
        return false;
    memcpy(&dynamic, taken->data + PREFIX_BYTES, sizeof dynamic);
    if (!is_expected(c, &dynamic, taken->size))
        return false;
    const uint8_t *orders = taken->data + HEADER_BYTES, *reflected = orders + dynamic.order_length;
    part_t part = part_of(taken, reflected + dynamic.reflected_length, dynamic.payload_length);
    message_t message;
    if (!take_payload(c, &dynamic, &part, &message))
        return false; /* the core may have more luck, or says so */
    note_taken(c, taken, now_ns);
    if (message.payload)
        receive_message(c, &dynamic, &message, now_ns);
    take_piggyback(c, &dynamic, orders);
    return true;
}

/* -- made -------------------------------------------------------------------------------------------- */

/* With all the order information that it has to carry, and not more of that than one may. */
bool may_leave(void) {
    return order_end() - dialogue.unreflected + ENTRIES_BYTES <= dialogue.order_carried_bytes;
}

static bool is_reflected(const remote_t *remote) {
    return remote->base < 0 || remote->unreflected >= remote->base + (int64_t)remote->held.size;
}

/* Bytes of the remote group's order information that the next message reflects. */
static int64_t next_reflected(const remote_t *remote) {
    int64_t most = dialogue.order_carried_bytes / 2;
    int64_t size = is_reflected(remote) ? 0 : remote->base + (int64_t)remote->held.size - remote->unreflected;
    return size < most ? size : most;
}

/* Payload that fits into one datagram with what it has to carry now, as `Messaging` has it. */
static int64_t room_of_one(const remote_t *remote) {
    int64_t carried = order_end() - dialogue.unreflected + next_reflected(remote);
    int64_t room = dialogue.datagram_bytes - HEADER_BYTES - carried;
    return room > dialogue.fragment_room ? room : dialogue.fragment_room;
}

static size_t next_reflection(remote_t *remote, int64_t *start, const uint8_t **data) {
    int64_t size = next_reflected(remote);
    *start = size ? remote->unreflected : 0;
    *data = size ? remote->held.data + (remote->unreflected - remote->base) : NULL;
    remote->unreflected += size;
    return (size_t)size;
}

/* -- cut ------------------------------------------------------------------------------------------- */

/* How many datagrams a payload takes that does not fit into one. */
static size_t fragments_of(size_t size) {
    size_t first = (size_t)dialogue.fragment_room, rest = (size_t)dialogue.plain_room;
    return size <= first ? 1 : 1 + (size - first + rest - 1) / rest;
}

/* Where one of them begins. */
static size_t cut_at(size_t index) {
    return index ? (size_t)dialogue.fragment_room + (index - 1) * (size_t)dialogue.plain_room : 0;
}

cut_t cut_payload(uint32_t digest, PyObject *payload) {
    const uint8_t *data = (const uint8_t *)PyBytes_AS_STRING(payload);
    size_t size = (size_t)PyBytes_GET_SIZE(payload), count = fragments_of(size);
    bool is_small = size < LARGE_BYTES || (count > 1 && dialogue.plain_room < LARGE_BYTES);
    cut_t cut = {.digest = digest, .has_checksums = !is_small};
    if (is_small) { /* it, or its parts: to put theirs together would take longer */
        cut.digest = ~crc32_over(~digest, data, size);
        return cut;
    }
    for (size_t index = 0; index < count; index++) {
        size_t start = cut_at(index), end = index + 1 < count ? cut_at(index + 1) : size;
        uint32_t checksum = crc32_of(data + start, end - start);
        cut.digest = crc32_joined(cut.digest, checksum, end - start);
        if (index < CUT_MAX)
            cut.checksums[index] = checksum;
    }
    return cut;
}

/* Of the payload in one piece. */
static uint32_t uncut(const cut_t *cut, size_t size) {
    size_t count = cut->has_checksums ? fragments_of(size) : 0;
    uint32_t checksum = 0;
    for (size_t index = 0; index < count; index++) {
        size_t start = cut_at(index), end = index + 1 < count ? cut_at(index + 1) : size;
        checksum = crc32_joined(checksum, cut->checksums[index], end - start);
    }
    return checksum;
}

/* -- sent ------------------------------------------------------------------------------------------ */

/* One that carries order information: the message, or its first fragment, or a KeepAlive. */
static int multicast_first(connection_t *c, const uint8_t *prefix, dynamic_t *dynamic, const datagram_piece *payload) {
    remote_t *remote = &dialogue.remotes[c->remote];
    const uint8_t *reflected;
    int64_t reflected_start;
    size_t reflected_size = next_reflection(remote, &reflected_start, &reflected);
    size_t order_at = (size_t)(dialogue.unreflected - dialogue.order_base);
    dynamic->order_length = (uint16_t)(dialogue.orders.size - order_at);
    dynamic->reflected_length = (uint16_t)reflected_size;
    dynamic->payload_length = (uint32_t)payload->size;
    dynamic->order_start = (uint64_t)dialogue.unreflected;
    dynamic->reflected_start = (uint64_t)reflected_start;
    datagram_piece pieces[] = {
        {.data = prefix, .size = PREFIX_BYTES},
        {.data = dynamic, .size = sizeof *dynamic},
        {.data = dialogue.orders.data + order_at, .size = dialogue.orders.size - order_at},
        {.data = reflected, .size = reflected_size},
        *payload,
    };
    return datagram->send(dialogue.datagrams, pieces, 5, TO_GROUP, remote->to, remote->to_count);
}

/* The other fragments: each says what the message depends on (D-10). */
static int multicast_rest(connection_t *c, dynamic_t *dynamic, const uint8_t *data, size_t size, const cut_t *cut) {
    remote_t *remote = &dialogue.remotes[c->remote];
    dynamic->order_length = dynamic->reflected_length = 0;
    dynamic->order_start = (uint64_t)order_end();
    dynamic->reflected_start = 0;
    for (size_t index = 1; index < dynamic->fragment_count; index++) {
        size_t start = cut_at(index), end = index + 1 < dynamic->fragment_count ? cut_at(index + 1) : size;
        dynamic->fragment_index = (uint16_t)index;
        dynamic->payload_length = (uint32_t)(end - start);
        bool is_known = cut->has_checksums && index < CUT_MAX;
        datagram_piece pieces[] = {
            {.data = c->out_prefix, .size = PREFIX_BYTES},
            {.data = dynamic, .size = sizeof *dynamic},
            {data + start, end - start, is_known, is_known ? cut->checksums[index] : 0},
        };
        bool more = index + 1 < dynamic->fragment_count;
        if (datagram->send_one_of(dialogue.datagrams, pieces, 3, TO_GROUP, remote->to, remote->to_count, more) < 0)
            return -1;
    }
    return 0;
}

/* What any message says, but for how it is cut, and what it carries. */
static dynamic_t dynamic_of(const connection_t *c, int64_t position, int64_t timestamp) {
    int64_t ack = c->received_up_to - c->in_base, number = position - c->out_base;
    return (dynamic_t){
        .msg_seq_num = (uint32_t)(number > 0 ? number : 0),
        .ack_view_num = (uint32_t)c->in_view_num,
        .ack = (uint32_t)(ack > 0 ? ack : 0),
        .back = (uint64_t)c->members_timestamp,
        .timestamp = (uint64_t)timestamp,
        .watermark = (uint64_t)dialogue.group_watermark,
        .committed = (uint64_t)dialogue.order_committed,
    };
}

int multicast_message(connection_t *c, const message_t *message, const cut_t *cut) {
    remote_t *remote = &dialogue.remotes[c->remote];
    const uint8_t *data = (const uint8_t *)PyBytes_AS_STRING(message->payload);
    size_t size = (size_t)PyBytes_GET_SIZE(message->payload);
    if (dialogue.commits_as_it_leaves && dialogue.order_committed < order_end())
        dialogue.order_committed = order_end();
    remote->used = true;
    dynamic_t dynamic = dynamic_of(c, message->position, message->timestamp);
    dynamic.fragment_count = (uint16_t)((int64_t)size > room_of_one(remote) ? fragments_of(size) : 1);
    if (dynamic.fragment_count == 1)
        return multicast_first(c, c->out_prefix, &dynamic, &(datagram_piece){data, size, cut->has_checksums, uncut(cut, size)});
    size_t first = (size_t)dialogue.fragment_room;
    if (multicast_first(c, c->out_prefix, &dynamic, &(datagram_piece){data, first, cut->has_checksums, cut->checksums[0]}) < 0)
        return -1;
    return multicast_rest(c, &dynamic, data, size, cut);
}

int multicast_keep_alive(connection_t *c) {
    uint8_t prefix[PREFIX_BYTES];
    memcpy(prefix, c->out_prefix, sizeof prefix);
    prefix[TYPE_AT] = KEEP_ALIVE;
    dialogue.remotes[c->remote].used = true;
    dynamic_t dynamic = dynamic_of(c, c->transmitted, dialogue.clock);
    dynamic.fragment_count = 1;
    return multicast_first(c, prefix, &dynamic, &(datagram_piece){.data = prefix});
}
