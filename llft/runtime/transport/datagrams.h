/* What other extension modules of the lane use of `datagrams.c`, without an object for what lies between. */

#ifndef LLFT_DATAGRAMS_H
#define LLFT_DATAGRAMS_H

#include <Python.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

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
} datagram_taken;

typedef struct {
    /* As many as have come, up to `most`; -1: an error of ours, as an exception. `drained`: there is no more. */
    int (*take)(PyObject *datagrams, int fd, datagram_taken *taken, int most, int *drained);
    /* One that was received elsewhere, as long as it is there: whether it is authentic. */
    int (*open)(PyObject *datagrams, const uint8_t *datagram, size_t size, const struct sockaddr_in *from,
                datagram_taken *taken);
    /* What `receive` has of it: identity, channel, number, data, address. */
    PyObject *(*as_tuple)(const datagram_taken *taken);
    /* Sealed once, to each; -1: an error of ours, as an exception. */
    int (*send)(PyObject *datagrams, const struct iovec *pieces, int count, int channel,
                const struct sockaddr_in *to, int to_count);
    int (*read_address)(PyObject *pair, struct sockaddr_in *address);
} datagram_functions;

#endif
