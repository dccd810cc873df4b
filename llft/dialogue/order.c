/* Entries of the order log as a dialogue has them: WAKE, READ, SEND, TIME, and of the counted ones those of its
 * selects, of random bytes and of reads that found nothing. The twin of `wire.order_encoder` and
 * `wire.order_decoder`, which say what the bytes mean. Nothing is merged into runs: each message seals what it
 * carries. */

#include "dialogue.h"

#include <string.h>

enum {
    KIND_MASK = 0x0F,
    NEW_PICK = 0x10,
    NEW_THREAD = 0x20,
    NEW_ITEM = 0x40,
    RUN_BIT = 0x80, /* of a counted one: another count than the next */
    VARINT_MAX = 10,
};

void put_uvarint(bytes_t *out, uint64_t value) {
    for (; value > 127; value >>= 7)
        *grow(out, 1) = (uint8_t)(value | 128);
    *grow(out, 1) = (uint8_t)value;
}

uint64_t zigzag(int64_t value) { return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63); }

static int64_t unzigzag(uint64_t value) { return (int64_t)(value >> 1) ^ -(int64_t)(value & 1); }

/* -- written ----------------------------------------------------------------------------------------- */

enum { NO_ITEM = -1 };

/* With a descriptor, that as well if it is another one. */
static void put_head(uint8_t kind, int64_t fd) {
    bytes_t *out = &dialogue.orders;
    size_t at = out->size;
    *grow(out, 1) = kind;
    if (dialogue.pick != dialogue.context_pick) {
        out->data[at] |= NEW_PICK;
        put_uvarint(out, zigzag(dialogue.pick - dialogue.context_pick));
        dialogue.context_pick = dialogue.pick;
    }
    if (dialogue.thread != dialogue.context_thread) {
        out->data[at] |= NEW_THREAD;
        put_uvarint(out, (uint64_t)dialogue.thread);
        dialogue.context_thread = dialogue.thread;
    }
    if (fd != NO_ITEM && fd != dialogue.context_fd) {
        out->data[at] |= NEW_ITEM;
        put_uvarint(out, (uint64_t)fd);
        dialogue.context_fd = fd;
    }
    dialogue.count++;
}

void record_wake(void) { put_head(WAKE, NO_ITEM); }

void record_read(int64_t fd, int64_t size) {
    put_head(READ, fd);
    put_uvarint(&dialogue.orders, (uint64_t)size);
}

void record_send(int64_t fd, int64_t timestamp, uint32_t digest) {
    put_head(SEND, fd);
    put_uvarint(&dialogue.orders, zigzag(timestamp - dialogue.context_timestamp - 1));
    put_bytes(&dialogue.orders, &digest, sizeof digest); /* little endian, as this lane is */
    dialogue.context_timestamp = timestamp;
}

void record_time(int clock_id, int64_t value) {
    size_t at = dialogue.orders.size;
    put_head(TIME, NO_ITEM);
    if (clock_id != dialogue.context_clock_id) {
        dialogue.orders.data[at] |= NEW_ITEM;
        put_uvarint(&dialogue.orders, zigzag(clock_id));
        dialogue.context_clock_id = clock_id;
    }
    put_uvarint(&dialogue.orders, zigzag(value - dialogue.clocks[clock_id].coded));
    dialogue.clocks[clock_id].coded = value;
}

/* It is lent only where the next count is the one that need not be said. */
static void put_counted(count_of *count, const uint8_t *data, size_t size) {
    put_uvarint(&dialogue.orders, size);
    put_bytes(&dialogue.orders, data, size);
    count->coded = ++count->performed;
}

void record_socket(count_of *count, const uint8_t *data, size_t size) {
    put_head(SOCKET, count->identifier);
    put_counted(count, data, size);
}

void record_general(count_of *count, const uint8_t *data, size_t size) {
    put_head(GENERAL, NO_ITEM);
    put_uvarint(&dialogue.orders, (uint64_t)count->identifier);
    put_counted(count, data, size);
}

/* -- read -------------------------------------------------------------------------------------------- */

/* NULL: it ends behind what is there, or is none. */
const uint8_t *get_uvarint(const uint8_t *at, const uint8_t *end, uint64_t *value) {
    *value = 0;
    for (int index = 0; index < VARINT_MAX && at < end; index++) {
        *value |= (uint64_t)(*at & 127) << (7 * index);
        if (*at++ < 128)
            return at;
    }
    return NULL;
}

/* The count that goes on with this entry; NULL: it is none of a dialogue's. */
static count_of *count_for(int kind, int64_t identifier) {
    if (kind == SOCKET) {
        connection_t *c = connection_of_fd(identifier);
        return c ? &c->nothings : NULL;
    }
    for (int at = 0; at < GENERALS; at++)
        if (dialogue.generals[at].identifier == identifier)
            return &dialogue.generals[at];
    return count_of_selects_of(identifier);
}

static int64_t coded_count(const look_t *look, const count_of *count) {
    int64_t coded = count->coded;
    for (int at = 0; at < look->counted; at++)
        coded += look->counts[at] == count;
    return coded;
}

/* Behind head and descriptor, of a counted one. NULL: not yet, or `entry->kind` is OTHER. */
static const uint8_t *read_counted(const uint8_t *at, const uint8_t *end, int kind, look_t *look, entry_t *entry) {
    uint64_t number;
    if (kind == GENERAL) {
        if (!(at = get_uvarint(at, end, &number)))
            return NULL;
        entry->identifier = (int64_t)number;
    } else {
        entry->identifier = entry->fd;
    }
    count_of *count = count_for(kind, entry->identifier);
    if (!count || !is_usable(count) || look->counted == LOOKED_AT) {
        entry->kind = OTHER;
        return NULL;
    }
    if (!(at = get_uvarint(at, end, &number)) || number > (uint64_t)(end - at))
        return NULL;
    entry->count = coded_count(look, count) + 1;
    entry->data = at;
    entry->data_size = (size_t)number;
    look->counts[look->counted++] = count;
    return at + number;
}

/* The entry that begins there, coded against the context, which it changes. */
static void read_entry(look_t *look, entry_t *entry) {
    const uint8_t *start = dialogue.orders.data + look->performed, *end = dialogue.orders.data + dialogue.orders.size;
    const uint8_t *at = start;
    entry_t *context = &look->context;
    uint64_t number = 0;
    *entry = *context;
    entry->kind = NOT_YET;
    if (at >= end)
        return;
    uint8_t head = *at++;
    int kind = head & KIND_MASK;
    bool is_counted = kind == SOCKET || kind == GENERAL;
    if ((kind != READ && kind != SEND && kind != WAKE && kind != TIME && !is_counted) || head & RUN_BIT ||
        ((kind == WAKE || kind == GENERAL) && head & NEW_ITEM)) {
        entry->kind = OTHER;
        return;
    }
    if (head & NEW_PICK) {
        if (!(at = get_uvarint(at, end, &number)))
            return;
        entry->pick += unzigzag(number);
    }
    if (head & NEW_THREAD) {
        if (!(at = get_uvarint(at, end, &number)))
            return;
        entry->thread = (int64_t)number;
    }
    if (head & NEW_ITEM) {
        if (!(at = get_uvarint(at, end, &number)))
            return;
        *(kind == TIME ? &entry->clock_id : &entry->fd) = kind == TIME ? unzigzag(number) : (int64_t)number;
    }
    if (is_counted) {
        if (!(at = read_counted(at, end, kind, look, entry)))
            return;
    } else if (kind != WAKE && !(at = get_uvarint(at, end, &number)))
        return;
    entry->size = (int64_t)number;
    if (kind == TIME) {
        if (entry->clock_id < 0 || entry->clock_id >= CLOCKS) {
            entry->kind = OTHER;
            return;
        }
        entry->value = dialogue.clocks[entry->clock_id].coded + unzigzag(number);
    }
    if (kind == SEND) {
        if (end - at < (ptrdiff_t)sizeof entry->digest)
            return;
        memcpy(&entry->digest, at, sizeof entry->digest);
        at += sizeof entry->digest;
        entry->timestamp = context->timestamp + 1 + unzigzag(number);
    }
    entry->kind = kind;
    entry->bytes = (size_t)(at - start);
    context->pick = entry->pick;
    context->thread = entry->thread;
    context->fd = entry->fd;
    context->timestamp = entry->timestamp;
    context->clock_id = entry->clock_id;
}

size_t skim(const uint8_t *at, const uint8_t *end, int64_t *fd, int64_t *size) {
    const uint8_t *start = at;
    uint64_t number = 0;
    *size = -1;
    if (at >= end)
        return 0;
    uint8_t head = *at++;
    int kind = head & KIND_MASK;
    bool is_counted = kind == SOCKET || kind == GENERAL, has_fd = kind == READ || kind == SEND || kind == SOCKET;
    if (head & RUN_BIT || !(has_fd || kind == WAKE || kind == TIME || kind == GENERAL) ||
        ((kind == WAKE || kind == GENERAL) && head & NEW_ITEM))
        return 0;
    if ((head & NEW_PICK && !(at = get_uvarint(at, end, &number))) ||
        (head & NEW_THREAD && !(at = get_uvarint(at, end, &number))) ||
        (head & NEW_ITEM && !(at = get_uvarint(at, end, &number))))
        return 0;
    if (has_fd && head & NEW_ITEM)
        *fd = (int64_t)number;
    if (kind == GENERAL && !(at = get_uvarint(at, end, &number)))
        return 0;
    if (kind != WAKE && !(at = get_uvarint(at, end, &number)))
        return 0;
    uint64_t behind = is_counted ? number : kind == SEND ? sizeof(uint32_t) : 0;
    if (behind > (uint64_t)(end - at))
        return 0;
    if (kind == READ)
        *size = number > INT32_MAX ? 0 : (int64_t)number; /* 0 is the core's */
    return (size_t)(at - start) + behind;
}

look_t look_at_log(void) {
    return (look_t){
        .ahead_at = dialogue.ahead_at,
        .performed = dialogue.performed,
        .context = {.pick = dialogue.context_pick, .thread = dialogue.context_thread, .fd = dialogue.context_fd,
                    .timestamp = dialogue.context_timestamp, .clock_id = dialogue.context_clock_id},
    };
}

/* One that the core has read; false: it is none of a dialogue's. */
static bool read_numbers(PyObject *tuple, entry_t *entry) {
    int64_t numbers[6] = {0};
    Py_ssize_t count = PyTuple_GET_SIZE(tuple);
    PyObject *data = NULL;
    if (count > 6)
        return false;
    for (Py_ssize_t at = 0; at < count; at++) {
        PyObject *item = PyTuple_GET_ITEM(tuple, at);
        if (at == 5 && PyBytes_CheckExact(item)) {
            data = item;
            continue;
        }
        numbers[at] = PyLong_Check(item) ? PyLong_AsLongLong(item) : -1;
        if (numbers[at] < 0) {
            PyErr_Clear();
            return false; /* a digest that is not known, too */
        }
    }
    *entry = (entry_t){.kind = (int)numbers[0], .pick = numbers[1], .thread = numbers[2]};
    if (entry->kind == READ || entry->kind == SEND)
        entry->fd = numbers[3];
    if (entry->kind == READ)
        entry->size = numbers[4];
    if (entry->kind == SEND) {
        entry->timestamp = numbers[4];
        entry->digest = (uint32_t)numbers[5];
    }
    if (entry->kind == TIME) {
        entry->clock_id = numbers[3];
        entry->value = numbers[4];
    }
    if (entry->kind == SOCKET || entry->kind == GENERAL) {
        entry->fd = entry->identifier = numbers[3];
        entry->count = numbers[4];
        if (!data || !count_for(entry->kind, entry->identifier))
            return false;
        entry->data = (const uint8_t *)PyBytes_AS_STRING(data);
        entry->data_size = (size_t)PyBytes_GET_SIZE(data);
        return true;
    }
    return !data && (entry->kind == READ || entry->kind == SEND || entry->kind == WAKE ||
                     (entry->kind == TIME && entry->clock_id < CLOCKS));
}

void next_entry(look_t *look, entry_t *entry) {
    look->entries++;
    if (look->ahead_at < dialogue.ahead_count) {
        PyObject *one = PyList_GET_ITEM(dialogue.ahead_entries, (Py_ssize_t)look->ahead_at++);
        if (!PyTuple_Check(one) || !read_numbers(one, entry))
            *entry = (entry_t){.kind = OTHER};
    } else if (dialogue.may_decode) {
        read_entry(look, entry);
        look->performed += entry->bytes;
    } else {
        *entry = (entry_t){.kind = OTHER};
    }
}

void pass(const look_t *look) {
    dialogue.ahead_at = look->ahead_at;
    dialogue.performed = look->performed;
    dialogue.context_pick = look->context.pick;
    dialogue.context_thread = look->context.thread;
    dialogue.context_fd = look->context.fd;
    dialogue.context_timestamp = look->context.timestamp;
    dialogue.context_clock_id = look->context.clock_id;
    for (int at = 0; at < look->counted; at++)
        look->counts[at]->coded++;
    dialogue.count += look->entries;
}

void read_ahead(PyObject *entries) {
    dialogue.ahead_at = 0;
    dialogue.ahead_count = (size_t)PyList_GET_SIZE(entries);
    Py_XSETREF(dialogue.ahead_entries, Py_NewRef(entries));
}
