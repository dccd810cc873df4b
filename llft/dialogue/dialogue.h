/* A dialogue: what a thread of the program hears and says on one connection without the core.
 *
 * It is lent by whoever holds the driver's lock, and taken back by whoever takes that lock next, like a run
 * (`reading_on.c`); docs/DEVIATIONS.md, D-74, has its laws, `llft/core/dialogue.py` its two ends. What the core
 * keeps of the connection is here meanwhile, and what the thread does is what the core would have done: the same
 * entries of the order log, the same datagrams, the same numbers.
 *
 *     order.c       entries of the order log, written and read
 *     lane.c        a datagram of the connection, taken and made: the twin of `core.messaging.lane`
 *     account.c     what is told of it when it is taken back
 *     journal.c     its records, as a frame of the journal
 *     dialogue.c    the thread's calls, and how they wait
 *     socket.c      the virtual socket's methods
 */

#ifndef LLFT_DIALOGUE_H
#define LLFT_DIALOGUE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../runtime/transport/datagrams.h"

#define NEVER (((int64_t)1 << 62) - 1)

/* -- reading_on.c: of all calls that are made without the core ---------------------------------------- */

bool may_be_counted(int levels); /* one call more, with so many levels of the stack left */
void count_call(void);

/* A reading in a dialogue of this thread: false if there is none, or it goes the usual way. */
bool read_clock_in_dialogue(int clock_id, int64_t *value);

extern PyMethodDef dialogue_methods[];
int begin_dialogues(PyObject *module);

enum { PREFIX_BYTES = 80, DYNAMIC_BYTES = 74, HEADER_BYTES = PREFIX_BYTES + DYNAMIC_BYTES, DESTINATIONS_MAX = 16 };

/* -- bytes that grow -------------------------------------------------------------------------------- */

typedef struct {
    uint8_t *data;
    size_t size, room;
} bytes_t;

uint8_t *grow(bytes_t *bytes, size_t more); /* where `more` bytes go; they count already */
void put_bytes(bytes_t *bytes, const void *data, size_t size);
void drop_front(bytes_t *bytes, size_t size);

/* -- messages that are kept -------------------------------------------------------------------------- */

typedef struct {
    int64_t position, timestamp, order_end;
    PyObject *payload; /* of one that came or was written: bytes */
    uint32_t digest;
    int64_t mark; /* of one that was delivered: where the entry ends that says so */
} message_t;

typedef struct {
    message_t *items;
    size_t first, count, room; /* from `first` on */
} messages_t;

message_t *add_message(messages_t *messages);
void clear_messages(messages_t *messages);

/* -- what was called, for the journal ---------------------------------------------------------------- */

typedef struct {
    int64_t time_ns, number, pick, position, timestamp, size, so_far;
    uint32_t digest;
    enum { HEARD, SAID, READING } kind;
    bool woken; /* heard after a wait, which has the entry before */
    int clock_id;
    int64_t limit; /* of what it wanted to hear */
} call_t;

enum { CLOCKS = 3, WHO_NUMBERS = 9, CONNECTION_NUMBERS = 3 };

/* The group's clock of one id. */
typedef struct {
    int64_t offset, last; /* what the local one is moved by; what a reading must not be behind */
    int64_t coded;        /* the reading that the next one is coded against */
    int64_t local;        /* at a backup: the local clock when it was read last */
} clock_of;

typedef struct {
    int kind;
    int64_t pick, thread, fd, size, timestamp, clock_id, value;
    uint32_t digest;
    size_t bytes; /* how long it is */
} entry_t;

typedef struct {
    /* Whose it is. */
    unsigned long ident; /* of the native thread; 0: nobody's */
    bool live;           /* at a primary */
    bool waiting;        /* the thread is in `epoll_wait`, without the interpreter's lock */
    uint64_t generation; /* one more whenever it is taken back */
    int64_t wanted;      /* how many bytes the waiting thread wants at the most; or */
    PyObject *saying;    /* what it wants to say */
    bool is_patient;     /* and whether it would wait for the window */
    /* What the core is told of it all. */
    int64_t thread, fd, receive_kind, send_kind, clock_kind;
    int64_t last_ns, pause_ns, deadline_ns;
    int64_t quantum, calls, pick;
    int64_t context_pick, context_thread, context_fd, context_timestamp;
    int64_t count, context_clock_id;
    clock_of clocks[CLOCKS];
    bool left; /* by its thread, for what came from outside */
    /* Our own order information: at a primary from `order_base`, what every message carries from `unreflected`
     * on; at a backup what is not performed yet, from `order_base` on. */
    bytes_t orders;
    int64_t order_base, unreflected;
    int64_t order_begun; /* at a primary: where what was recorded here begins */
    size_t performed;    /* at a backup: so many bytes of it */
    /* At a backup: entries that the core has read already, and not performed; behind them come the bytes, unless
     * there is more that is none of a dialogue's. */
    entry_t *ahead;
    size_t ahead_count, ahead_room, ahead_at;
    int64_t may_decode, sends_decoded;
    int64_t group_watermark, order_committed, commits_as_it_leaves, order_lag_bytes, order_carried_bytes;
    int64_t datagram_bytes, clock;
    /* The connection. */
    int64_t in_base, out_base, out_view_num, in_view_num;
    int64_t received_up_to, received_bytes, delivered_bytes, read_offset;
    int64_t delivered_position, delivered_timestamp;
    uint32_t delivered_digest, sent_digest;
    int64_t ack_told, acked, acked_in_view, transmitted, generated;
    int64_t remote_watermark, sent_count, sent_bytes, window_messages, window_bytes;
    int64_t members_timestamp, heard_ns, said_ns, ack_due_ns, retransmit_ns;
    int64_t ack_delay_ns, ack_patience_ns, retransmit_interval_ns;
    messages_t received, delivered, sent;
    /* The remote group's order information, from `held_base` on; -1: none. */
    bytes_t held;
    int64_t held_base, held_unreflected, held_watermark, held_committed, held_limit;
    uint8_t in_prefix[PREFIX_BYTES], out_prefix[PREFIX_BYTES], birth[DATAGRAMS_BIRTH_BYTES];
    /* The network. */
    PyObject *datagrams;
    struct sockaddr_in to[DESTINATIONS_MAX];
    int to_count, epoll_fd, urgent_fd, hearing_fd;
    int64_t newest; /* number of a datagram of the other end's */
    int64_t lazy_ns, spin_ns;
    bytes_t numbers;    /* of those that were taken, eight bytes each */
    PyObject *foreign;  /* a list: datagrams that are not of this dialogue, and all behind them */
    /* What is told. */
    bool journalling, witnessed;
    int64_t who[WHO_NUMBERS], connection_id[CONNECTION_NUMBERS];
    call_t *called;
    size_t called_count, called_room;
    bytes_t births;
} dialogue_t;

extern dialogue_t dialogue;
extern const datagram_functions *datagram;

static inline int64_t order_end(void) { return dialogue.order_base + (int64_t)dialogue.orders.size; }

/* -- order.c ---------------------------------------------------------------------------------------- */

enum { NOT_YET = 0, READ = 1, SEND = 2, TIME = 4, WAKE = 7, OTHER = 255 };

void put_uvarint(bytes_t *out, uint64_t value);
void record_wake(void);
void record_read(int64_t size);
void record_send(int64_t timestamp, uint32_t digest);
void record_time(int clock_id, int64_t value);
uint64_t zigzag(int64_t value);

/* A look at the log, from where it is performed on. */
typedef struct {
    size_t ahead_at, performed;
    entry_t context;
    int entries;
} look_t;

look_t look_at_log(void);
/* The next entry: NOT_YET, or OTHER for what is none of a dialogue's. */
void next_entry(look_t *look, entry_t *entry);
void pass(const look_t *look); /* all that was looked at is performed */
void read_ahead(PyObject *entries); /* of the core's, as far as they are a dialogue's */

/* -- lane.c ----------------------------------------------------------------------------------------- */

bool take_datagram(const datagram_taken *taken, int64_t now_ns); /* false: not of this dialogue, and not taken */
bool fits(size_t payload_size);
int multicast_message(const message_t *message);

/* -- dialogue.c ------------------------------------------------------------------------------------- */

extern PyObject *handed;
PyObject *hear(int64_t fd, int64_t limit, bool counted);
PyObject *say(int64_t fd, PyObject *payload, bool patient);

/* -- socket.c --------------------------------------------------------------------------------------- */

PyObject *speak_for(PyObject *module, PyObject *type);
PyObject *know(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *forget_known(PyObject *module, PyObject *none);
void forget_socket(void);
int mark_receiving(void);

/* -- account.c -------------------------------------------------------------------------------------- */

void note_call(const call_t *call);
void note_birth_of_bytes(PyObject *data);
void note_birth_of_number(int64_t kind, int64_t number);
PyObject *account(void); /* of a dialogue that is over */
size_t readings_from(size_t at); /* how many calls from this one on are readings of one clock */

/* -- journal.c -------------------------------------------------------------------------------------- */

PyObject *journal_frame(void); /* the frame, how many records it has, and the time of the first */

#endif
