/* A message of the dialogue's connection: taken as it comes, made as it leaves. The twin of
 * `core.messaging.lane`, which has the paper's lines.
 *
 * Law: what is not the very next message, or brings what does not follow what is here, is not touched: the core
 * gets it whole. */

#include "dialogue.h"

#include <string.h>

enum { TO_GROUP = 0, ENTRIES_BYTES = 64 /* of one call, at the most */ };

typedef struct __attribute__((packed)) {
    uint16_t flags, fragment_index, fragment_count, order_length, reflected_length;
    uint32_t msg_seq_num, ack_view_num, ack, payload_length;
    uint64_t back, timestamp, watermark, committed, order_start, reflected_start;
} dynamic_t;

_Static_assert(sizeof(dynamic_t) == DYNAMIC_BYTES, "as wire.header has it");

/* Offsets and timestamps that no group comes to. Python's numbers have no end, those here do: what a peer says
 * that is out of its mind is the core's. */
static bool has_absurd_numbers(const dynamic_t *dynamic) {
    uint64_t all = dynamic->back | dynamic->timestamp | dynamic->watermark | dynamic->committed |
                   dynamic->order_start | dynamic->reflected_start;
    return all >= (uint64_t)1 << 61;
}

/* What is held goes on from where it ends, and has room. */
static bool can_be_held(int64_t start, int64_t size) {
    int64_t end = dialogue.held_base + (int64_t)dialogue.held.size;
    if ((int64_t)dialogue.held.size + size > dialogue.held_limit)
        return false;
    return dialogue.held_base < 0 || (dialogue.held_base <= start && start <= end);
}

static bool is_expected(const dynamic_t *dynamic, size_t size) {
    size_t rest = HEADER_BYTES + (size_t)dynamic->order_length + dynamic->reflected_length;
    if (dialogue.in_base + (int64_t)dynamic->msg_seq_num != dialogue.received_up_to + 1)
        return false;
    if (dynamic->flags | dynamic->fragment_index || dynamic->fragment_count != 1)
        return false;
    if (dynamic->ack_view_num != (uint32_t)dialogue.out_view_num || !dynamic->payload_length)
        return false;
    if (size != rest + dynamic->payload_length)
        return false;
    if (has_absurd_numbers(dynamic))
        return false;
    if (dynamic->order_length && !can_be_held((int64_t)dynamic->order_start, dynamic->order_length))
        return false;
    if (dynamic->reflected_length && (int64_t)dynamic->reflected_start >
                                         (dialogue.live ? dialogue.unreflected : order_end()))
        return false;
    return true;
}

static void hold(int64_t start, const uint8_t *data, size_t size) {
    if (dialogue.held_base < 0)
        dialogue.held_base = dialogue.held_unreflected = start;
    int64_t end = dialogue.held_base + (int64_t)dialogue.held.size, behind = start + (int64_t)size;
    if (behind > end)
        put_bytes(&dialogue.held, data + (end - start), (size_t)(behind - end));
}

static void on_held_watermark(int64_t watermark) {
    if (watermark <= dialogue.held_watermark)
        return;
    dialogue.held_watermark = watermark;
    if (dialogue.held_base < 0 || watermark <= dialogue.held_base)
        return;
    int64_t end = dialogue.held_base + (int64_t)dialogue.held.size;
    int64_t upto = watermark < end ? watermark : end;
    drop_front(&dialogue.held, (size_t)(upto - dialogue.held_base));
    dialogue.held_base = upto;
    if (dialogue.held_unreflected < upto)
        dialogue.held_unreflected = upto;
    if (!dialogue.held.size)
        dialogue.held_base = -1;
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

static void on_ack(int64_t acked) {
    if (acked <= dialogue.acked_in_view)
        return;
    dialogue.acked_in_view = acked;
    if (acked > dialogue.acked) {
        dialogue.acked = acked;
        if (acked >= dialogue.transmitted)
            dialogue.retransmit_ns = NEVER; /* the next message has its whole interval */
    }
}

bool take_datagram(const datagram_taken *taken, int64_t now_ns) {
    dynamic_t dynamic;
    if (taken->channel != TO_GROUP || taken->size < HEADER_BYTES || (int64_t)taken->number <= dialogue.newest ||
        memcmp(taken->identity + DATAGRAMS_BIRTH_IN_IDENTITY, dialogue.birth, DATAGRAMS_BIRTH_BYTES) ||
        memcmp(taken->data, dialogue.in_prefix, PREFIX_BYTES))
        return false;
    memcpy(&dynamic, taken->data + PREFIX_BYTES, sizeof dynamic);
    if (!is_expected(&dynamic, taken->size))
        return false;
    const uint8_t *orders = taken->data + HEADER_BYTES, *reflected = orders + dynamic.order_length;
    PyObject *payload = PyBytes_FromStringAndSize((const char *)reflected + dynamic.reflected_length,
                                                  (Py_ssize_t)dynamic.payload_length);
    if (!payload) {
        PyErr_Clear();
        return false; /* the core may have more luck, or says so */
    }
    dialogue.newest = (int64_t)taken->number;
    put_bytes(&dialogue.numbers, &taken->number, sizeof taken->number);
    int64_t position = ++dialogue.received_up_to;
    dialogue.received_bytes += dynamic.payload_length;
    message_t *message = add_message(&dialogue.received);
    message->position = position;
    message->timestamp = (int64_t)dynamic.timestamp;
    message->order_end = (int64_t)dynamic.order_start + dynamic.order_length;
    message->payload = payload;
    int64_t delay_ns = position == dialogue.ack_told + 1 ? dialogue.ack_patience_ns : dialogue.ack_delay_ns;
    dialogue.heard_ns = now_ns;
    if (now_ns + delay_ns < dialogue.ack_due_ns)
        dialogue.ack_due_ns = now_ns + delay_ns;
    on_ack(dialogue.out_base + dynamic.ack);
    if ((int64_t)dynamic.back > dialogue.remote_watermark)
        dialogue.remote_watermark = (int64_t)dynamic.back;
    if (dynamic.order_length)
        hold((int64_t)dynamic.order_start, orders, dynamic.order_length);
    on_held_watermark((int64_t)dynamic.watermark);
    if ((int64_t)dynamic.committed > dialogue.held_committed)
        dialogue.held_committed = (int64_t)dynamic.committed;
    if (dynamic.reflected_length)
        on_reflected((int64_t)dynamic.reflected_start, reflected, dynamic.reflected_length);
    return true;
}

/* In one datagram, with all the order information that it has to carry, and not more of that than one may. */
bool fits(size_t payload_size) {
    int64_t carried = order_end() - dialogue.unreflected;
    int64_t room = dialogue.datagram_bytes - HEADER_BYTES - carried - ENTRIES_BYTES - dialogue.order_carried_bytes / 2;
    return carried + ENTRIES_BYTES <= dialogue.order_carried_bytes && (int64_t)payload_size <= room;
}

static size_t next_reflection(int64_t *start, const uint8_t **data) {
    int64_t end = dialogue.held_base + (int64_t)dialogue.held.size, most = dialogue.order_carried_bytes / 2;
    *start = 0;
    *data = NULL;
    if (dialogue.held_base < 0 || dialogue.held_unreflected >= end)
        return 0;
    int64_t size = end - dialogue.held_unreflected;
    if (size > most)
        size = most;
    *start = dialogue.held_unreflected;
    *data = dialogue.held.data + (dialogue.held_unreflected - dialogue.held_base);
    dialogue.held_unreflected += size;
    return (size_t)size;
}

int multicast_message(const message_t *message) {
    const uint8_t *reflected;
    int64_t reflected_start, ack = dialogue.received_up_to - dialogue.in_base;
    size_t reflected_size = next_reflection(&reflected_start, &reflected);
    size_t order_at = (size_t)(dialogue.unreflected - dialogue.order_base);
    if (dialogue.commits_as_it_leaves && dialogue.order_committed < order_end())
        dialogue.order_committed = order_end();
    dynamic_t dynamic = {
        .fragment_count = 1,
        .order_length = (uint16_t)(dialogue.orders.size - order_at),
        .reflected_length = (uint16_t)reflected_size,
        .msg_seq_num = (uint32_t)(message->position - dialogue.out_base),
        .ack_view_num = (uint32_t)dialogue.in_view_num,
        .ack = (uint32_t)(ack > 0 ? ack : 0),
        .payload_length = (uint32_t)PyBytes_GET_SIZE(message->payload),
        .back = (uint64_t)dialogue.members_timestamp,
        .timestamp = (uint64_t)message->timestamp,
        .watermark = (uint64_t)dialogue.group_watermark,
        .committed = (uint64_t)dialogue.order_committed,
        .order_start = (uint64_t)dialogue.unreflected,
        .reflected_start = (uint64_t)reflected_start,
    };
    struct iovec pieces[] = {
        {dialogue.out_prefix, PREFIX_BYTES},
        {&dynamic, sizeof dynamic},
        {dialogue.orders.data + order_at, dialogue.orders.size - order_at},
        {(void *)reflected, reflected_size},
        {PyBytes_AS_STRING(message->payload), (size_t)PyBytes_GET_SIZE(message->payload)},
    };
    return datagram->send(dialogue.datagrams, pieces, 5, TO_GROUP, dialogue.to, dialogue.to_count);
}
