/* A dialogue: what a thread of the program hears and says on its connections without the core.
 *
 * It is lent by whoever holds the driver's lock, and taken back by whoever takes that lock next, like a run
 * (`reading_on.c`); docs/DEVIATIONS.md, D-74, has its laws, `llft/core/dialogue.py` its two ends. What the core
 * keeps of the connections is here meanwhile, and what the thread does is what the core would have done: the same
 * entries of the order log, the same datagrams, the same numbers.
 *
 *     order.c       entries of the order log, written and read
 *     acks.c        what was received, and is not answered yet
 *     lane.c        a datagram of a connection, taken and made: the twin of `core.messaging.lane`
 *     fragments.c   a message that comes in several datagrams: the twin of `wire.fragment`
 *     asking.c      who is asked for the output commit, and answers
 *     beating.c     Heartbeats of our own group, heard and said
 *     backlog.c     what had been received before
 *     forgetting.c  what all members have is not kept
 *     waiting.c     how a call waits for the network
 *     relay.c       a gateway's loop: what it does without calls
 *     calls.c       the thread's calls: hear, say, select, read a clock, draw
 *     threads.c     several threads in one dialogue
 *     gates.c       what threads wait at for their results
 *     locks.c       locks that nobody waits for
 *     socket.c      the virtual socket's methods
 *     selecting.c   sets of descriptors that a program selects on
 *     account.c     what is told of it when it is taken back
 *     journal.c     its records, as a frame of the journal
 *     lending.c     lent, and taken back
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

bool is_plain(int levels);    /* so many levels of the stack are left, and nobody traces or profiles */
bool may_be_made(int levels); /* one call more, with so many levels of the stack left, and maybe a collection behind it */
int was_made(void); /* -1: an exception */

extern PyMethodDef dialogue_methods[];
int begin_dialogues(PyObject *module);

enum {
    PREFIX_BYTES = 80,
    DYNAMIC_BYTES = 74,
    HEADER_BYTES = PREFIX_BYTES + DYNAMIC_BYTES,
    DESTINATIONS_MAX = 16,
    CONNECTIONS_MAX = 128, /* as `core.dialogue_lent` has it */
    REMOTES_MAX = 16,
    THREADS_MAX = 64, /* as `core.dialogue_threads` has it */
    PLACES = 512, /* of a table of connections: four times as many */
    CLOCKS = 3,
    WHO_NUMBERS = 9,
    CHANNELS = 3,
    CONNECTION_NUMBERS = 3,
    BEAT_BYTES = 64,  /* of a Heartbeat's body, as `wire.bodies` has it */
    MEMBERS_MAX = 16, /* as `core.dialogue_beats` has it */
};

/* Of a datagram, behind the prefix: as `wire.header` has it. */
typedef struct __attribute__((packed)) {
    uint16_t flags, fragment_index, fragment_count, order_length, reflected_length;
    uint32_t msg_seq_num, ack_view_num, ack, payload_length;
    uint64_t back, timestamp, watermark, committed, order_start, reflected_start;
} dynamic_t;

_Static_assert(sizeof(dynamic_t) == DYNAMIC_BYTES, "as wire.header has it");

/* Offsets and timestamps that no group comes to. Python's numbers have no end, those here do: what a peer says
 * that is out of its mind is the core's. */
static inline bool has_absurd_numbers(const dynamic_t *dynamic) {
    uint64_t all = dynamic->back | dynamic->timestamp | dynamic->watermark | dynamic->committed |
                   dynamic->order_start | dynamic->reflected_start;
    return all >= (uint64_t)1 << 61;
}

/* From here on it pays to take a checksum once and to put it together with others (`crc32_joined`), and not to
 * copy what is there. */
enum { LARGE_BYTES = 4096 };

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
    bool has_checksum; /* of one that came: of its payload */
    uint32_t checksum;
    int64_t mark;   /* of one that was delivered: where the entry ends that says so */
    bool is_marked; /* or the core has it */
} message_t;

typedef struct {
    message_t *items;
    size_t first, count, room; /* from `first` on */
} messages_t;

message_t *add_message(messages_t *messages);
void clear_messages(messages_t *messages);

/* A message of which some fragments have come, in their order (D-12). */
typedef struct {
    PyObject *payload; /* with room for more than has come; NULL: none has */
    size_t size;       /* that has come */
    int count;         /* of fragments that it has */
    bytes_t ends;      /* where in `payload` each one ends that has come */
    bool has_checksum; /* of all that has come */
    uint32_t checksum;
} partial_t;

/* -- what is lent ------------------------------------------------------------------------------------ */

/* N of an operation that is counted: of what was performed, and of what the next entry is coded against. The first
 * of its kind goes the usual way: where a count is in the core's tables decides what these forget. */
typedef struct {
    int64_t identifier, performed, coded, performed_before, coded_before;
} count_of;

/* Messages that were delivered, and forgotten: positions of the first and the last one (0: there were none), and the
 * checksum of their payloads in one piece. */
typedef struct {
    int64_t first, last, bytes;
    uint32_t checksum;
} gone_t;

static inline bool is_usable(const count_of *count) { return count->performed > 0 && count->coded > 0; }

/* A connection. */
typedef struct {
    int64_t fd;
    int remote; /* of which group */
    bool used;  /* something was heard or said on it */
    int64_t in_base, out_base, out_view_num, in_view_num;
    int64_t received_up_to, received_bytes, delivered_bytes, read_offset;
    int64_t delivered_position, delivered_timestamp;
    uint32_t delivered_digest, sent_digest;
    int64_t ack_told, acked, acked_in_view, transmitted, generated;
    int64_t remote_watermark;
    int64_t sent_count, sent_bytes; /* that are in the window: those sent before, and bytes of all */
    int64_t sent_bytes_before;      /* of them, those sent before */
    size_t collected;               /* of `sent`: all members of the remote group have them */
    int64_t members_timestamp, heard_ns, said_ns, ack_due_ns, retransmit_ns;
    bool has_told_ack; /* what came last is acknowledged by a KeepAlive of this dialogue's */
    int64_t sends_decoded;
    int64_t ordered_bytes; /* at a backup: as far as the log was skimmed (`asking.c`) */
    bool read_decoded; /* at a backup: what was read on it came from the log's bytes */
    count_of nothings; /* reads that found nothing */
    int64_t keep_alive_ns; /* when it has to say that it is there, if it says nothing else */
    messages_t received, delivered, sent;
    PyObject *backlog; /* a list of the core's, of what had come before; from `backlog_at` on it is before `arrived` */
    Py_ssize_t backlog_at;
    messages_t arrived; /* what has come behind a backlog */
    gone_t gone;        /* of `delivered` */
    partial_t partial;
    uint8_t in_prefix[PREFIX_BYTES], out_prefix[PREFIX_BYTES];
    PyObject *view; /* of the group at the other end, under which what comes was accepted */
    int64_t id[CONNECTION_NUMBERS];
    int journal_index; /* in the frame that is being made; -1: not there */
} connection_t;

/* The group at the other end of some of them: its order information, from `base` on (-1: none), its primary. */
typedef struct {
    bytes_t held;
    int64_t base, unreflected, watermark, committed, limit;
    bool used;
    uint8_t birth[DATAGRAMS_BIRTH_BYTES];
    int64_t newest; /* number of a datagram of its primary's */
    bytes_t numbers; /* of those that were taken, eight bytes each */
    struct sockaddr_in to[DESTINATIONS_MAX];
    int to_count;
    bool waits; /* for our output commit */
    uint8_t held_prefix[PREFIX_BYTES];
} remote_t;

/* The process that questions of the output commit are exchanged with: at a primary the backup whose holding
 * commits, at a backup the primary. */
typedef struct {
    bool is_lent, is_used;
    uint8_t birth[DATAGRAMS_BIRTH_BYTES], sender[16];
    int64_t newest[CHANNELS];
    bytes_t numbers[CHANNELS];
    struct sockaddr_in to[DESTINATIONS_MAX], others[DESTINATIONS_MAX];
    int to_count, other_count;
    uint8_t in_prefix[PREFIX_BYTES], out_prefix[PREFIX_BYTES];
    int64_t room; /* for order information, in one datagram */
    /* At a primary, as `core.asking` has it: what it holds, up to where and when it was asked, and what the others
     * are told. */
    int64_t held, end, asked_ns, patience_ns;
    bool is_wanted, has_asked;
    bool has_others;
    int64_t behind, told_ns, told_end, telling_ns;
    bytes_t before; /* of our order information, from `before_base` to `order_base` */
    int64_t before_base;
    /* At a backup: up to where it was asked, and what was skimmed of the log. */
    int64_t wanted_end, skimmed_fd;
    size_t skimmed;
    bool is_passed_over; /* another one is asked, as a rule */
    /* At a backup, of the primary's Heartbeats: when they came, and what the last one says (`beating.c`). */
    uint8_t beat_prefix[PREFIX_BYTES], beat[BEAT_BYTES];
    bytes_t beats; /* eight bytes each */
    int64_t beat_watermark, heard_ns; /* the second: of the last one of all, copies too; 0: none has come */
} fellow_t;

/* At a primary, a backup whose Heartbeats it hears. */
typedef struct {
    uint8_t birth[DATAGRAMS_BIRTH_BYTES], sender[16]; /* as envelopes have it, and as messages do */
    int64_t newest[CHANNELS];
    bytes_t numbers[CHANNELS];
    int64_t watermark, heard_ns, lent_ns, timeout_ns; /* the third: when it was heard before */
    uint8_t beat[BEAT_BYTES]; /* the last one */
} member_t;

/* What a member says of itself, and hears of others (`beating.c`). */
typedef struct {
    bool is_lent;
    int64_t due_ns, interval_ns, beaten_ns; /* the last one: 0: it has not beaten here */
    uint64_t count;                         /* of a primary's */
    int64_t own_watermark;                  /* at a backup, as the core knows it */
    int64_t announced;                      /* at a primary: so much of what is committed was told to who waits */
    uint8_t prefix[PREFIX_BYTES], body[BEAT_BYTES];
    struct sockaddr_in to[DESTINATIONS_MAX];
    int to_count;
    int64_t *pulse_ns, pulse_leave_ns; /* where the pulse looks when we have beaten last; and how much later it may */
    member_t members[MEMBERS_MAX];
    int member_count;
} beating_t;

/* The group's clock of one id. */
typedef struct {
    int64_t offset, last; /* what the local one is moved by; what a reading must not be behind */
    int64_t coded;        /* the reading that the next one is coded against */
    int64_t local;        /* at a backup: the local clock when it was read last */
} clock_of;

/* An entry of the order log. */
typedef struct {
    int kind;
    int64_t pick, thread, fd, size, timestamp, clock_id, value;
    int64_t identifier, count;
    const uint8_t *data; /* of a counted one, as long as the log is not written on */
    size_t data_size;
    uint32_t digest;
    size_t bytes; /* how long it is */
} entry_t;

/* A call that was made, for the journal. */
typedef struct {
    enum { HEARD, SAID, READING, SELECTED, SELECTED_ON_SOCKET, NOTHING_THERE, DRAWN, WOKE } kind;
    bool woken;  /* after a wait, which has the entry before */
    bool looked; /* it would not have waited */
    int connection;
    int64_t time_ns, number, pick, position, timestamp, size, so_far;
    uint32_t digest;
    int clock_id;
    int64_t thread;
    int64_t limit; /* of what it wanted to hear; the count of a counted one */
    size_t data_at, data_size; /* of a counted one, in `dialogue.counted` */
} call_t;

enum { SELECT_COUNT, RANDOM_COUNT, GENERALS };

/* The call of a thread that waits in it. */
typedef struct {
    enum { NO_CALL, RECEIVES, LOOKS, SENDS, SELECTS, PARKS, YIELDS, READS, DRAWS } kind; /* as `core.dialogue_threads` has it */
    int64_t fd, limit;
    PyObject *payload;
    bool is_patient;
    PyObject *fds, *writing;
    bool is_interruptible;
    int64_t timeout_ns; /* as it was asked for */
    int64_t until_ns;   /* NEVER: it has no timeout */
    int64_t least_ns; /* of a select that may wait at least so much is left, for one that may not is another call */
} asked_t;

/* A thread of the program (`threads.c`). */
typedef struct {
    int64_t number;
    PyObject *thread, *gate; /* owned: the driver's, and what it waits at */
    enum { ELSEWHERE, RUNS, ASLEEP, PARKED, RUNNABLE, WOKEN } state; /* as `core.dialogue_threads` has it */
    bool has_turned;  /* it is not where it was when it was lent, or was elsewhere meanwhile */
    int64_t place;    /* among those that wait */
    asked_t asked;    /* what it waits for */
    count_of selects; /* its own */
    PyObject *result, *result_told; /* owned: of one that could go on when it was lent, and what the birth log has of it */
} thread_t;

typedef struct {
    /* Whose it is. */
    unsigned long ident; /* of the native thread; 0: nobody's */
    bool live;           /* at a primary */
    bool is_relay;       /* of a gateway's loop (`relay.c`): it has no past, so there is no birth log */
    bool waiting;        /* the thread is in `epoll_wait`, without the interpreter's lock */
    uint64_t generation; /* one more whenever it is taken back */
    asked_t asked;       /* what it waits for */
    bool left;           /* by its thread, for what came from outside */
    bool brisk;          /* its last wait was for a moment */
    int64_t looked_ns;   /* when all descriptors were looked at */
    /* What the core is told of it all. */
    int64_t thread, receive_kind, send_kind, clock_kind, select_kind, random_kind;
    int64_t last_ns, pause_ns, heard_ns;
    int64_t deadline_ns, late_ns; /* the second: of what cannot wait while messages come briskly */
    int64_t suspect_ns, suspect_after_ns; /* at a backup: when its primary is suspected that is not heard */
    int64_t quantum, calls, pick, count;
    bool is_alone; /* at a backup: no other thread is parked, so whoever is picked next is known */
    int64_t context_pick, context_thread, context_fd, context_timestamp, context_clock_id;
    clock_of clocks[CLOCKS];
    count_of generals[GENERALS];
    /* Threads, where there are several that count; none: it is that of one. */
    thread_t threads[THREADS_MAX];
    int thread_count;
    thread_t *running;
    int64_t parked_elsewhere, park_kind, unpark_kind, yield_kind;
    int64_t places, turns, picks; /* the last one since the network was looked at */
    /* Our own order information: at a primary from `order_base`, what every message carries from `unreflected`
     * on; at a backup what is not performed yet, from `order_base` on. */
    bytes_t orders;
    int64_t order_base, unreflected;
    int64_t order_begun; /* at a primary: where what was recorded here begins */
    size_t performed;    /* at a backup: so many bytes of it */
    /* At a backup: entries that the core has read already, and not performed; behind them come the bytes, if the core
     * has read all before them. They are looked at when it is their turn: there may be many. */
    PyObject *ahead_entries; /* a list */
    size_t ahead_count, ahead_at;
    int64_t may_decode;
    int64_t group_watermark, order_committed, commits_as_it_leaves, order_lag_bytes, order_carried_bytes;
    int64_t datagram_bytes, fragment_room, plain_room, clock, window_messages, window_bytes;
    int64_t ack_delay_ns, ack_patience_ns, retransmit_interval_ns, keep_alive_interval_ns;
    connection_t connections[CONNECTIONS_MAX];
    int connection_count;
    int16_t by_fd[PLACES], by_prefix[PLACES]; /* places of connections; -1: none */
    remote_t remotes[REMOTES_MAX];
    int remote_count;
    fellow_t fellow;
    beating_t beating;
    /* The network. */
    PyObject *datagrams;
    int epoll_fd, urgent_fd, hearing_fd, own_fd; /* the last one hears what is for this process alone */
    bool is_watched; /* another thread waits for the whole set */
    int64_t lazy_ns, spin_ns;
    PyObject *foreign; /* a list: datagrams that are not of this dialogue, and all behind them */
    PyObject *postponed; /* a list: those that can wait while messages come briskly; they do not end it */
    int64_t postponed_until_ns;
    /* What is told. */
    bool journalling, witnessed;
    int64_t who[WHO_NUMBERS];
    call_t *called;
    size_t called_count, called_room;
    size_t sealed_count; /* of those before, which are in `frames` and `readings` */
    PyObject *frames, *readings;
    bytes_t counted;       /* data of counted entries */
    bytes_t births;        /* of the birth log, behind `born` */
    PyObject *born;        /* a list of bytes */
    size_t births_bytes;   /* of `born` */
    int64_t births_digest; /* of the log with `born` */
    PyObject *selected;    /* a list, for a witness: fds, timeout and writing of each select */
    bytes_t nothing;       /* what the birth log has of a read that found nothing */
} dialogue_t;

extern dialogue_t dialogue;
extern const datagram_functions *datagram;

static inline int64_t order_end(void) { return dialogue.order_base + (int64_t)dialogue.orders.size; }

static inline int64_t available(const connection_t *c) { return c->received_bytes - c->delivered_bytes; }

connection_t *connection_of_fd(int64_t fd);           /* NULL: it is not lent */
connection_t *connection_of_prefix(const uint8_t *prefix);
void place_connections(void);

/* -- order.c ---------------------------------------------------------------------------------------- */

enum { NOT_YET = 0, READ = 1, SEND = 2, TIME = 4, SOCKET = 5, GENERAL = 6, WAKE = 7, OTHER = 255 };
enum { RANDOM_IDENTIFIER = 1 };

void put_uvarint(bytes_t *out, uint64_t value);
const uint8_t *get_uvarint(const uint8_t *at, const uint8_t *end, uint64_t *value); /* NULL: there is none */
void record_wake(void);
void record_read(int64_t fd, int64_t size);
void record_send(int64_t fd, int64_t timestamp, uint32_t digest);
void record_time(int clock_id, int64_t value);
void record_socket(count_of *count, const uint8_t *data, size_t size);
void record_general(count_of *count, const uint8_t *data, size_t size);
uint64_t zigzag(int64_t value);

/* A look at the log, from where it is performed on. */
enum { LOOKED_AT = 4 };
typedef struct {
    size_t ahead_at, performed;
    entry_t context;
    int entries, counted;
    count_of *counts[LOOKED_AT]; /* of the entries that were decoded, whose counts go on */
} look_t;

look_t look_at_log(void);
/* The next entry: NOT_YET, or OTHER for what is none of a dialogue's. */
void next_entry(look_t *look, entry_t *entry);
void pass(const look_t *look); /* all that was looked at is performed */
static inline bool has_decoded(const look_t *look) { return look->performed != dialogue.performed; }
/* An entry, without its meaning: how long it is, 0 if that is not known; the descriptor; of a READ its size, else -1. */
size_t skim(const uint8_t *at, const uint8_t *end, int64_t *fd, int64_t *size);
void read_ahead(PyObject *entries); /* of the core's */

/* -- lane.c ----------------------------------------------------------------------------------------- */

bool take_datagram(const datagram_taken *taken, int64_t now_ns); /* false: not of this dialogue, and not taken */
bool take_keep_alive(const datagram_taken *taken, int64_t now_ns); /* the same, if it says nothing that is missing */
/* A payload as it is cut if it has to be: what the running digest is with it, and the checksums of its parts, as
 * many as there is room for. */
enum { CUT_MAX = 16 };
typedef struct {
    uint32_t digest;
    bool has_checksums; /* or it is small */
    uint32_t checksums[CUT_MAX];
} cut_t;

cut_t cut_payload(uint32_t digest, PyObject *payload);
bool may_leave(void); /* with all the order information that it would have to carry */
int multicast_message(connection_t *c, const message_t *message, const cut_t *cut);
int multicast_keep_alive(connection_t *c); /* it says up to where we have received */
void tell_acks(int64_t now_ns);            /* that are due, at a primary */

/* -- fragments.c ------------------------------------------------------------------------------------ */

enum { FRAGMENTED_MAX = 1 << 20 }; /* bytes of a message that is put together here */

/* Whether it is the next one of its message, and has room. */
bool follows(const partial_t *partial, int index, int count, size_t size);
/* Bytes of a payload, and their checksum if it is known. */
typedef struct {
    const uint8_t *data;
    size_t size;
    bool has_checksum;
    uint32_t checksum;
} part_t;

/* False: there is no memory. `message` gets the payload, if it was the last one. */
bool add_fragment(partial_t *partial, int count, const part_t *part, message_t *message);
void clear_partial(partial_t *partial);
int read_fragments(partial_t *partial, int count, PyObject *fragments);
PyObject *fragments_now(const partial_t *partial); /* a list of bytes */

/* -- asking.c --------------------------------------------------------------------------------------- */

bool take_from_fellow(const datagram_taken *taken, int64_t now_ns);
int64_t answer_due_ns(void); /* at a primary: NEVER if none is under way */
bool needs_answer(void); /* at a primary: there is another question to be asked behind it */
bool awaits_answer(const connection_t *c); /* what is said there could not be asked about before that has come */
bool may_seek_commit(const connection_t *c, int64_t now_ns);
bool seek_commit(const connection_t *c, int64_t now_ns); /* ahead of the message; whether somebody was asked */
void seek_on(bool asked, int64_t now_ns);               /* behind it */
bool answer_if_held(void); /* at a backup: false if it was asked for what is not known to be here */
int read_fellow(PyObject *fellow);
PyObject *fellow_now(void);

/* -- beating.c -------------------------------------------------------------------------------------- */

bool take_beat(const datagram_taken *taken, const dynamic_t *dynamic, int64_t now_ns);
bool take_beat_of_member(const datagram_taken *taken, int64_t now_ns);
int64_t beat_due_ns(void);
bool keep_beating(int64_t now_ns); /* false: the core has to see to it */
int64_t put_off_ns(const datagram_taken *taken, int64_t now_ns); /* 0: it ends the dialogue */
bool something_waits(void);                      /* of all that */
int read_beating(PyObject *beating);
PyObject *beating_now(void);

/* -- backlog.c -------------------------------------------------------------------------------------- */

bool is_readable(connection_t *c, int64_t size); /* false: there is something in it that is the core's */
message_t *add_received(connection_t *c);
bool has_backlog(const connection_t *c);

/* -- forgetting.c ----------------------------------------------------------------------------------- */

void forget_delivered(void); /* of all connections, up to the group's watermark */

/* -- waiting.c -------------------------------------------------------------------------------------- */

typedef enum { WAIT, LEAVE, ARRIVED, HANDED } outcome_t;

int64_t monotonic_ns(void);
bool is_brisk(void); /* the last wait was for a moment only */
outcome_t wait_for_network(int64_t *now_ns, const asked_t *asked);
void ask_nothing(void);
int64_t due_ns(void); /* what is to be done by then, whether somebody waits or not */
PyObject *take_left_behind(PyObject *module, PyObject *none);
bool is_calm(int64_t now_ns); /* nothing is due, and what has come was of the dialogue */

/* How often, since the process began, and how long it took to make the journal's frames: for people. */
typedef struct {
    unsigned long long lent, woken, heard, said, selected, handed, meanwhile, foreign, sought, deadlines, others, asked,
        answered, beaten, journal_ns;
} tally_t;
extern tally_t tally;

/* Why a call of a dialogue was not made in it, and ends it: for people. */
#define REASONS(one)                                                                                                   \
    one(left) one(paused) one(full) one(not_plain) one(others_turn) one(far_ahead) one(not_calm) one(somebody_else)    \
    one(unread) one(first_of_its_kind) one(window) one(carried) one(answer_awaited) one(commit) one(large)             \
    one(other_entry) one(unproven_pick) one(not_lent) one(clock)
#define ENUMERATED(name) BECAUSE_##name,
enum { REASONS(ENUMERATED) REASON_COUNT };
extern unsigned long long reasons[REASON_COUNT];
#define because(name) (reasons[BECAUSE_##name]++)

/* -- looking.c -------------------------------------------------------------------------------------- */

/* Of whoever looks for a while before it sleeps: whether to, and what came of it, and of sleeping. */
typedef struct {
    bool pays;
    int tried, sleeps, between;
    int64_t found_ns, slept_ns; /* how long it takes until something is there, about */
} looks_t;
bool is_promising(looks_t *looks);
int has_looked(looks_t *looks, int found, int64_t took_ns);
void has_slept(looks_t *looks, int64_t took_ns);

/* -- listening.c ------------------------------------------------------------------------------------ */

struct epoll_event;
void listen_apart(void);
void listen_together(void);
int look_at_descriptors(struct epoll_event *events, int most, int timeout_ms); /* those that have something */

/* -- relay.c ---------------------------------------------------------------------------------------- */

PyObject *relay(PyObject *module, PyObject *arguments);

/* -- calls.c ---------------------------------------------------------------------------------------- */

extern PyObject *handed; /* instead of a result: the core has the call */

/* Bytes; None: it goes the usual way; HANDED. */
PyObject *hear(connection_t *c, int64_t limit, bool counted);
/* A read that does not wait: bytes; True: there is nothing; None: it goes the usual way; HANDED. */
PyObject *look(connection_t *c, int64_t limit, bool counted);
/* True: it is said; None: it goes the usual way; HANDED. */
PyObject *say(connection_t *c, PyObject *payload, bool patient, bool counted);
/* A tuple; a number: it goes the usual way, with this timeout; HANDED. */
PyObject *choose(PyObject *fds, PyObject *writing, int64_t timeout_ns, bool interruptible, bool counted);
int64_t left_of(const asked_t *asked); /* of its time */
/* At a primary: what was received, or a part of it, up to `limit` bytes. */
PyObject *deliver(connection_t *c, int64_t size, int64_t limit, bool woken, bool decoded, int64_t now_ns);
bool is_far_ahead(void); /* nothing is to be recorded now */
bool may_say(const connection_t *c, int64_t now_ns);
bool say_live(connection_t *c, PyObject *payload, int64_t now_ns);
/* A reading in a dialogue of this thread: 0 if there is none, or it goes the usual way; -1: an exception; READ_BY_CORE:
 * the core has the call. */
enum { READ_BY_CORE = 2 };
int read_clock_in_dialogue(int clock_id, int64_t *value, bool counted);
PyObject *draw_in_dialogue(Py_ssize_t size, bool counted); /* HANDED; NULL without an exception: it goes the usual way */

bool is_paused(int64_t now_ns);
bool is_here(int64_t now_ns);
bool is_spent(void); /* the next call uses up the quantum */
void spend(int64_t now_ns);
void be_picked(void);
bool is_ready(const asked_t *asked);
PyObject *make_waiting_call(const asked_t *asked, bool waited, int64_t now_ns, outcome_t *outcome);

/* -- threads.c --------------------------------------------------------------------------------------- */

bool has_threads(void);
bool somebody_could_go_on(void); /* if the thread that runs gave the token back */
bool is_alone(void);             /* nobody else is parked */
int64_t parked_until_ns(void);
count_of *count_of_selects(void); /* of the thread that runs */
count_of *count_of_selects_of(int64_t identifier);
/* A call waits: others go on meanwhile. ARRIVED: what comes of it, be it from here or from the core. */
PyObject *wait_in_turn(const asked_t *asked, int64_t *now_ns, outcome_t *outcome);
PyObject *park(PyObject *module, PyObject *counted);
PyObject *unpark(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *yield_turn(PyObject *module, PyObject *counted);
int read_threads(PyObject *threads);
void forget_threads(void);
PyObject *threads_now(void);

/* -- gates.c ----------------------------------------------------------------------------------------- */

int begin_gates(PyObject *module);
int open_and_wait(PyObject *others, PyObject *mine); /* -1: an exception, of a handler of a signal for example */

/* -- locks.c ----------------------------------------------------------------------------------------- */

PyObject *i_am(PyObject *module, PyObject *number);
int64_t number_of_this_thread(void); /* of the program; 0: it is none of its */
PyObject *lock_for(PyObject *module, PyObject *arguments);
PyObject *spend_on_locks(PyObject *module, PyObject *arguments);
PyObject *spent_on_locks(PyObject *module, PyObject *none);
PyObject *set_spent_on_locks(PyObject *module, PyObject *amount);

/* -- socket.c --------------------------------------------------------------------------------------- */

int place_of_slot(PyObject *type, const char *name, Py_ssize_t *place); /* -1: it has none of that name */

PyObject *speak_for(PyObject *module, PyObject *type);
PyObject *know(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *forget_known(PyObject *module, PyObject *fd);
int mark_receiving(void);
void receive_is_made(void); /* what follows is not of it */
PyObject *begin_receiving(void); /* the stream of a receive that goes on elsewhere, or NULL */
int end_receiving(PyObject *stream);

int64_t fd_known(PyObject *description, PyObject **stream);
PyObject *number_of_socket(PyObject *file);
int know_streams(PyObject *type);

/* -- selecting.c ------------------------------------------------------------------------------------ */

PyObject *select_for(PyObject *module, PyObject *arguments);

/* -- account.c -------------------------------------------------------------------------------------- */

void note_call(const call_t *call);
void seal_calls(void); /* what was called so far needs no room any more; a witness is told of all of it */
void note_birth_of_bytes(int64_t kind, PyObject *data);
void note_birth_of_known(int64_t kind, PyObject *data, uint32_t checksum);
void note_birth_of_number(int64_t kind, int64_t number);
void note_birth_of_fds(const int64_t *fds, Py_ssize_t count);
void note_birth_of_nothing(void);
void note_witnessed(PyObject *fds, int64_t timeout_ns, PyObject *writing, bool interruptible);
PyObject *account(void); /* of a dialogue that is over */
PyObject *times_in(const bytes_t *times);  /* eight bytes each */
PyObject *runs_in(const bytes_t *numbers); /* of datagrams, eight bytes each: a list of (first, how many) */
int know_kinds_of_messages(void);          /* -1: an exception */
int read_addresses(PyObject *addresses, struct sockaddr_in *to, int *to_count);
void begin_count(count_of *count);
size_t readings_from(size_t at); /* how many calls from this one on are readings of one clock, by one pick */

/* -- journal.c -------------------------------------------------------------------------------------- */

int journal_frames(PyObject *frames); /* to the list: a frame, how many records it has, and the time of the first */

#endif
