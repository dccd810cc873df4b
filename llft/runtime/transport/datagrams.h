/* What other extension modules of the lane use of `datagrams.c`, without an object for what lies between. */

#ifndef LLFT_DATAGRAMS_H
#define LLFT_DATAGRAMS_H

#include <Python.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DATAGRAMS_CAPSULE "llft.runtime.transport.datagrams.functions"

enum { DATAGRAMS_IDENTITY_BYTES = 22, DATAGRAMS_BIRTH_IN_IDENTITY = 4, DATAGRAMS_BIRTH_BYTES = 16 };

/* An authentic datagram, as long as nothing else is received. */
typedef struct {
    const uint8_t *identity;
    int channel;
    uint64_t number;
    const uint8_t *data;
    size_t size;
    uint64_t from;
    const uint8_t *start; /* of the bytes that the envelope's checksum is of; they end with the data */
    int has_checksum;     /* or it has a MAC, which says nothing of its parts */
    uint32_t checksum;
} datagram_taken;

/* A piece of what is sent. Of a large one its CRC-32 may be known. */
typedef struct {
    const void *data;
    size_t size;
    int has_checksum;
    uint32_t checksum;
} datagram_piece;

enum { DATAGRAMS_AT_ONCE = 1024, DATAGRAMS_HEARD_BYTES = 1 << 16 };

/* What one call has heard, outside of the interpreter's lock maybe: datagrams of one sender that came together. */
typedef struct {
    uint8_t data[DATAGRAMS_HEARD_BYTES];
    ssize_t size;   /* -1: nothing */
    size_t segment; /* of each, but for the last one, which may be smaller */
    struct sockaddr_in from;
} datagrams_heard;

typedef struct {
    /* Some that have come, at most DATAGRAMS_AT_ONCE; -1: an error of ours, as an exception. `drained`: there is no
     * more. */
    int (*take)(PyObject *datagrams, int fd, const datagram_taken **taken, int *drained);
    /* Without the interpreter's lock: false with errno. */
    int (*hear)(PyObject *datagrams, int fd, int flags, datagrams_heard *heard);
    /* Of what was heard, as long as it is there: how many, like `take`. */
    int (*open)(PyObject *datagrams, const datagrams_heard *heard, const datagram_taken **taken);
    /* What `receive` has of it: identity, channel, number, data, address. */
    PyObject *(*as_tuple)(const datagram_taken *taken);
    /* Sealed once, to each; -1: an error of ours, as an exception. */
    int (*send)(PyObject *datagrams, const datagram_piece *pieces, int count, int channel,
                const struct sockaddr_in *to, int to_count);
    int (*read_address)(PyObject *pair, struct sockaddr_in *address);
    /* The same as `send` for one of several, to the same: they may leave together, with the last one (no `more`). */
    int (*send_one_of)(PyObject *datagrams, const datagram_piece *pieces, int count, int channel,
                       const struct sockaddr_in *to, int to_count, int more);
} datagram_functions;

#endif
