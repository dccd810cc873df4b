/* What all members of our group have of what was delivered is not kept (lines 76-78, 82-84): the twin of
 * `Connection.collect_delivered`. The core is told up to where, and the checksum of all of it, for the digest of what
 * was received (D-41).
 *
 * Laws: messages go in their order, each when the order log says up to the watermark that it was delivered; a witness
 * is told of calls and not of messages, so it makes no difference to it. */

#include "dialogue.h"

#include "../wire/crc32.h"

/* Where the log says that the first of them is delivered: with the last message of a read. */
static int64_t mark_of(const message_t *first, const message_t *behind) {
    for (; first < behind; first++) {
        if (first->is_marked)
            return dialogue.order_base; /* by the core, before what it has lent */
        if (first->mark)
            return first->mark;
    }
    return NEVER;
}

static void forget_first(connection_t *c) {
    message_t *m = &c->delivered.items[c->delivered.first];
    size_t size = (size_t)PyBytes_GET_SIZE(m->payload);
    uint32_t checksum = m->has_checksum ? m->checksum : crc32_of((const uint8_t *)PyBytes_AS_STRING(m->payload), size);
    c->gone.checksum = crc32_joined(c->gone.checksum, checksum, size);
    c->gone.bytes += (int64_t)size;
    c->gone.first = c->gone.first ? c->gone.first : m->position;
    c->gone.last = m->position;
    c->members_timestamp = m->timestamp > c->members_timestamp ? m->timestamp : c->members_timestamp;
    Py_DECREF(m->payload);
    c->delivered.first++;
    if (!--c->delivered.count)
        c->delivered.first = 0;
}

/* Messages of one read go together. */
static void forget_of(connection_t *c) {
    messages_t *delivered = &c->delivered;
    int64_t mark = NEVER;
    for (bool begins = true; delivered->count;) {
        message_t *first = &delivered->items[delivered->first];
        mark = begins ? mark_of(first, first + delivered->count) : mark;
        if (mark > dialogue.group_watermark)
            return;
        begins = first->mark || first->is_marked;
        forget_first(c);
    }
}

void forget_delivered(void) {
    for (int at = 0; at < dialogue.connection_count; at++)
        forget_of(&dialogue.connections[at]);
}
