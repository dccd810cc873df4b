/* Envelopes and UDP: sealed and sent, received and opened, without an object for what lies between.
 *
 * The twin of llft/runtime/transport/envelope.py, which says what the bytes mean. Whoever sent a datagram, and
 * whether it came before, is asked by the transport; here is what costs time for each byte. Sockets do not
 * block, so the interpreter's lock is kept.
 */

#define PY_SSIZE_T_CLEAN
#define _GNU_SOURCE
#include <Python.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "../../wire/crc32.h"
#include "blake2b.h"
#include "datagrams.h"
#include "gmac.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

enum {
    VERSION_BLAKE2B = 0xF1, /* or, without a key, of the CRC */
    VERSION_GMAC = 0xF2,
    BIRTH_AT = 6,
    BIRTH_BYTES = 16,
    IDENTITY_AT = 2,
    PREFIX_BYTES = 24, /* version, key number, identity */
    HEADER_BYTES = PREFIX_BYTES + 8,
    MAC_BYTES = BLAKE2B_DIGEST,
    ENVELOPE_BYTES = HEADER_BYTES + MAC_BYTES,
    CHANNELS = 3,
    CHANNEL_BIT = 62,
    AT_ONCE = 32,       /* received by one call, */
    TOGETHER_MAX = 128, /* and where they come together each may be so many */
    FDS_MAX = 4,
    CRC_BYTES = 4,
    SMALL = 2048, /* copied sooner than looked at in pieces */
    PIECES_MAX = 8,
    BATCH_BYTES = 65000,
    SEGMENTS_MAX = 64,
    WAYS_MAX = 16,
};

static const uint8_t CRC_PADDING[MAC_BYTES - CRC_BYTES] = "llft, no key";

typedef enum { NO_KEY, PUBLIC_KEY, SECRET_KEY } key_kind;

/* For what the kernel says of a batch. */
typedef union {
    struct cmsghdr header;
    uint8_t bytes[CMSG_SPACE(sizeof(int))];
} control_for_receiving;

/* A socket that is connected with where it leads: for what goes there the kernel need not look for a route. */
typedef struct {
    struct sockaddr_in to;
    int fd;
} way_t;

typedef struct {
    PyObject_HEAD
    int sending_fd;
    way_t ways[WAYS_MAX];
    int way_count;
    size_t largest;
    uint8_t prefix[PREFIX_BYTES];
    uint8_t own_birth[BIRTH_BYTES];
    uint64_t next[CHANNELS];
    uint8_t kinds[256];
    blake2b_key *keys; /* by number */
    gmac_key *gmac_keys;
    uint8_t *outgoing;
    uint8_t *incoming; /* AT_ONCE times what may come; pages that nothing came into are not there */
    size_t incoming_room;
    struct mmsghdr messages[AT_ONCE];
    struct iovec pieces[AT_ONCE];
    struct sockaddr_in addresses[AT_ONCE];
    control_for_receiving controls[AT_ONCE];
    datagram_taken taken[DATAGRAMS_AT_ONCE];
    int asked[FDS_MAX], asked_count; /* descriptors that have been asked for batches */
    uint8_t *batch;                        /* datagrams that leave together; NULL until there are some */
    size_t batched, segment, last_segment; /* how many, of which size, but for the last one */
    int cannot_segment;
    unsigned long long sent, sent_bytes, received_bytes, lost_at_sending, receive_errors;
    unsigned long long malformed, wrong_key, own;
} Datagrams;

static void put_crc(uint32_t crc, uint8_t *mac) {
    crc = htonl(crc);
    memcpy(mac, &crc, CRC_BYTES);
    memcpy(mac + CRC_BYTES, CRC_PADDING, sizeof CRC_PADDING);
}

/* Of what begins with a header whose key is there. */
static void mac_of(const Datagrams *self, const uint8_t *body, size_t size, uint8_t *mac) {
    uint8_t version = body[0], number = body[1];
    if (self->kinds[number] == PUBLIC_KEY)
        put_crc(crc32_of(body, size), mac);
    else if (version == VERSION_GMAC)
        gmac_mac(&self->gmac_keys[number], body, size, HEADER_BYTES, mac);
    else
        blake2b_mac(&self->keys[number], body, size, mac);
}

static int has_key(const Datagrams *self, const uint8_t *beginning) {
    uint8_t kind = self->kinds[beginning[1]];
    return beginning[0] == VERSION_GMAC ? kind == SECRET_KEY : kind != NO_KEY;
}

/* -- sending -------------------------------------------------------------------------------------- */

static int may_seal(const Datagrams *self, size_t length, int channel) {
    if (self->outgoing == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "it was never begun, or is closed");
        return 0;
    }
    if (channel < 0 || channel >= CHANNELS) {
        PyErr_SetString(PyExc_ValueError, "there is no such channel");
        return 0;
    }
    if (length > self->largest - ENVELOPE_BYTES) {
        PyErr_SetString(PyExc_ValueError, "the datagram is too large");
        return 0;
    }
    return 1;
}

static void put_header(Datagrams *self, int channel, uint8_t *header) {
    uint64_t sequence = (uint64_t)channel << CHANNEL_BIT | self->next[channel]++;
    uint64_t big_endian = __builtin_bswap64(sequence);
    memcpy(header, self->prefix, PREFIX_BYTES);
    memcpy(header + PREFIX_BYTES, &big_endian, sizeof big_endian);
}

static Py_ssize_t seal_into(Datagrams *self, const uint8_t *data, size_t length, int channel) {
    if (!may_seal(self, length, channel)) return -1;
    put_header(self, channel, self->outgoing);
    memcpy(self->outgoing + HEADER_BYTES, data, length);
    size_t size = HEADER_BYTES + length;
    mac_of(self, self->outgoing, size, self->outgoing + size);
    return (Py_ssize_t)size + MAC_BYTES;
}

static PyObject *seal(Datagrams *self, PyObject *args) {
    Py_buffer data;
    int channel;
    if (!PyArg_ParseTuple(args, "y*i", &data, &channel)) return NULL;
    Py_ssize_t size = seal_into(self, data.buf, (size_t)data.len, channel);
    PyBuffer_Release(&data);
    return size < 0 ? NULL : PyBytes_FromStringAndSize((char *)self->outgoing, size);
}

static int read_address(PyObject *pair, struct sockaddr_in *address) {
    const char *host;
    unsigned short port;
    if (!PyTuple_Check(pair) || !PyArg_ParseTuple(pair, "sH", &host, &port)) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "an address is a host and a port");
        return -1;
    }
    memset(address, 0, sizeof *address);
    address->sin_family = AF_INET;
    address->sin_port = htons(port);
    if (inet_pton(AF_INET, host, &address->sin_addr) != 1) {
        PyErr_Format(PyExc_ValueError, "%s is no IPv4 address", host);
        return -1;
    }
    return 0;
}

/* Nothing blocks, and what the network does not take is lost; but what would fail for ever is an error. */
static int count_sent(Datagrams *self, ssize_t done, size_t size) {
    if (done >= 0) {
        self->sent++;
        self->sent_bytes += size;
    } else if (errno == EBADF || errno == EMSGSIZE || errno == ENOTSOCK) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    } else {
        self->lost_at_sending++;
    }
    return 0;
}

/* By which socket it leaves, and what that has to be told. */
typedef struct {
    int fd;
    const struct sockaddr_in *to;
    socklen_t size;
} exit_t;

static exit_t exit_to(const Datagrams *self, const struct sockaddr_in *to) {
    for (int i = 0; i < self->way_count; i++) {
        const way_t *way = &self->ways[i];
        if (way->to.sin_addr.s_addr == to->sin_addr.s_addr && way->to.sin_port == to->sin_port)
            return (exit_t){way->fd, NULL, 0};
    }
    return (exit_t){self->sending_fd, to, sizeof *to};
}

static int send_to(Datagrams *self, const struct sockaddr_in *address, size_t size) {
    exit_t exit = exit_to(self, address);
    ssize_t done;
    do {
        done = sendto(exit.fd, self->outgoing, size, MSG_DONTWAIT, (const struct sockaddr *)exit.to, exit.size);
    } while (done < 0 && errno == EINTR);
    return count_sent(self, done, size);
}

static PyObject *send_data(Datagrams *self, PyObject *args) {
    Py_buffer data;
    int channel;
    PyObject *to;
    if (!PyArg_ParseTuple(args, "y*iO", &data, &channel, &to)) return NULL;
    PyObject *addresses = PySequence_Fast(to, "addresses are a sequence"); /* may run Python, so it is first */
    Py_ssize_t size = addresses == NULL ? -1 : seal_into(self, data.buf, (size_t)data.len, channel);
    PyBuffer_Release(&data);
    if (size < 0) {
        Py_XDECREF(addresses);
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(addresses); i++) {
        struct sockaddr_in address;
        if (read_address(PySequence_Fast_GET_ITEM(addresses, i), &address) < 0 ||
            send_to(self, &address, (size_t)size) < 0) {
            Py_DECREF(addresses);
            return NULL;
        }
    }
    Py_DECREF(addresses);
    Py_RETURN_NONE;
}

/* -- receiving ------------------------------------------------------------------------------------ */

static int is_same(const uint8_t *one, const uint8_t *other, size_t size) {
    uint8_t differs = 0; /* in a time that tells nothing of where */
    for (size_t i = 0; i < size; i++) differs |= one[i] ^ other[i];
    return !differs;
}

static int is_version(uint8_t byte) { return byte == VERSION_BLAKE2B || byte == VERSION_GMAC; }

/* Whether it is to be looked at; the cheap reasons against it come first. */
static int is_authentic(Datagrams *self, const uint8_t *datagram, size_t size) {
    uint8_t mac[MAC_BYTES];
    if (size < ENVELOPE_BYTES || size > self->largest || !is_version(datagram[0])) {
        self->malformed++;
        return 0;
    }
    if (!memcmp(datagram + BIRTH_AT, self->own_birth, BIRTH_BYTES)) {
        self->own++;
        return 0;
    }
    if (!has_key(self, datagram)) {
        self->wrong_key++;
        return 0;
    }
    mac_of(self, datagram, size - MAC_BYTES, mac);
    if (!is_same(mac, datagram + size - MAC_BYTES, MAC_BYTES)) {
        if (self->kinds[0] == PUBLIC_KEY)
            self->malformed++;
        else
            self->wrong_key++;
        return 0;
    }
    if (datagram[PREFIX_BYTES] >> 6 >= CHANNELS) {
        self->malformed++;
        return 0;
    }
    return 1;
}

static datagram_taken opened(const Datagrams *self, const uint8_t *datagram, size_t size,
                             const struct sockaddr_in *address) {
    uint64_t sequence;
    uint32_t checksum;
    memcpy(&checksum, datagram + size - MAC_BYTES, CRC_BYTES);
    memcpy(&sequence, datagram + PREFIX_BYTES, sizeof sequence);
    sequence = __builtin_bswap64(sequence);
    return (datagram_taken){
        .identity = datagram + IDENTITY_AT,
        .channel = (int)(sequence >> CHANNEL_BIT),
        .number = sequence & (((uint64_t)1 << CHANNEL_BIT) - 1),
        .data = datagram + HEADER_BYTES,
        .size = size - ENVELOPE_BYTES,
        .from = (uint64_t)ntohl(address->sin_addr.s_addr) << 16 | ntohs(address->sin_port),
        .start = datagram,
        .has_checksum = self->kinds[datagram[1]] == PUBLIC_KEY,
        .checksum = ntohl(checksum),
    };
}

/* identity, channel, number in it, data, sender's address as one number */
static PyObject *as_tuple(const datagram_taken *taken) {
    return Py_BuildValue("y#iKy#K", taken->identity, (Py_ssize_t)DATAGRAMS_IDENTITY_BYTES, taken->channel,
                         (unsigned long long)taken->number, taken->data, (Py_ssize_t)taken->size,
                         (unsigned long long)taken->from);
}

/* Where each of a batch goes: the same for all batches. */
static void prepare_receiving(Datagrams *self) {
    for (int i = 0; i < AT_ONCE; i++) {
        self->pieces[i] = (struct iovec){self->incoming + (size_t)i * self->incoming_room, self->incoming_room};
        self->messages[i].msg_hdr = (struct msghdr){
            .msg_name = &self->addresses[i],
            .msg_namelen = sizeof self->addresses[i],
            .msg_iov = &self->pieces[i],
            .msg_iovlen = 1,
            .msg_control = self->controls[i].bytes,
            .msg_controllen = sizeof self->controls[i].bytes,
        };
    }
}

/* Where datagrams are small, those of one message may come together, as they left (UDP_GRO). */
static int comes_together(const Datagrams *self) { return self->largest <= BATCH_BYTES / 2; }

static void ask_for_batches(Datagrams *self, int fd) {
    int one = 1;
    for (int i = 0; i < self->asked_count; i++)
        if (self->asked[i] == fd) return;
    if (self->asked_count == FDS_MAX || !comes_together(self)) return;
    self->asked[self->asked_count++] = fd;
    (void)setsockopt(fd, IPPROTO_UDP, UDP_GRO, &one, sizeof one); /* without it they come one by one */
}

/* Of which size each datagram is of those that came together; that of all if it came alone. */
static size_t segment_of(struct msghdr *message, size_t size) {
    for (struct cmsghdr *one = CMSG_FIRSTHDR(message); one; one = CMSG_NXTHDR(message, one))
        if (one->cmsg_level == IPPROTO_UDP && one->cmsg_type == UDP_GRO) {
            int segment;
            memcpy(&segment, CMSG_DATA(one), sizeof segment);
            return segment > 0 ? (size_t)segment : size;
        }
    return size;
}

/* Those that came together, and are authentic, behind `found` others. */
static int take_segments(Datagrams *self, const uint8_t *data, size_t size, size_t segment,
                         const struct sockaddr_in *from, int found) {
    do {
        size_t part = size < segment ? size : segment;
        if (found == DATAGRAMS_AT_ONCE) {
            self->malformed++; /* no kernel puts so many together */
        } else if (is_authentic(self, data, part)) {
            self->received_bytes += part;
            self->taken[found++] = opened(self, data, part, from);
        }
        data += part;
        size -= part;
    } while (size);
    return found;
}

static int take_some(Datagrams *self, int fd, int most, int *drained) {
    int found = 0, wanted = comes_together(self) ? DATAGRAMS_AT_ONCE / TOGETHER_MAX : AT_ONCE;
    if (most < wanted) wanted = most;
    *drained = 1;
    if (self->incoming == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "it was never begun, or is closed");
        return -1;
    }
    ask_for_batches(self, fd);
    int count = recvmmsg(fd, self->messages, (unsigned)wanted, MSG_DONTWAIT, NULL);
    if (count < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
        if (errno == EBADF || errno == EMSGSIZE || errno == ENOTSOCK) {
            PyErr_SetFromErrno(PyExc_OSError);
            return -1;
        }
        /* An ICMP answer to something sent before: that datagram is lost, the socket is not. */
        self->receive_errors++;
        *drained = 0;
        return 0;
    }
    for (int i = 0; i < count; i++) {
        struct msghdr *message = &self->messages[i].msg_hdr;
        size_t size = self->messages[i].msg_len, segment = segment_of(message, size);
        found = take_segments(self, self->pieces[i].iov_base, size, segment, &self->addresses[i], found);
        message->msg_controllen = sizeof self->controls[i].bytes; /* as it was before */
    }
    *drained = count < wanted;
    return found;
}

static int take(PyObject *object, int fd, const datagram_taken **taken, int *drained) {
    *taken = ((Datagrams *)object)->taken;
    return take_some((Datagrams *)object, fd, AT_ONCE, drained);
}

/* Several that came together, or one. */
static ssize_t hear_batch(int fd, int flags, datagrams_heard *heard) {
    struct iovec piece = {heard->data, sizeof heard->data};
    control_for_receiving control;
    struct msghdr message = {
        .msg_name = &heard->from,
        .msg_namelen = sizeof heard->from,
        .msg_iov = &piece,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof control.bytes,
    };
    ssize_t size = recvmsg(fd, &message, flags);
    if (size >= 0) heard->segment = segment_of(&message, (size_t)size);
    return size;
}

/* Where none come together: this asks less of the kernel. */
static ssize_t hear_one(int fd, int flags, datagrams_heard *heard) {
    socklen_t length = sizeof heard->from;
    ssize_t size = recvfrom(fd, heard->data, sizeof heard->data, flags, (struct sockaddr *)&heard->from, &length);
    if (size >= 0) heard->segment = (size_t)size;
    return size;
}

static int hear(PyObject *object, int fd, int flags, datagrams_heard *heard) {
    heard->size = (comes_together((Datagrams *)object) ? hear_batch : hear_one)(fd, flags, heard);
    return heard->size >= 0;
}

static int open_heard(PyObject *object, const datagrams_heard *heard, const datagram_taken **taken) {
    Datagrams *self = (Datagrams *)object;
    *taken = self->taken;
    return heard->size < 0 ? 0 : take_segments(self, heard->data, (size_t)heard->size, heard->segment, &heard->from, 0);
}

static PyObject *receive(Datagrams *self, PyObject *args) {
    int fd, most, drained = 0;
    if (!PyArg_ParseTuple(args, "ii", &fd, &most)) return NULL;
    PyObject *batch = PyList_New(0);
    for (int count; batch != NULL && most > 0 && !drained; most -= count > 0 ? count : 1) {
        count = take_some(self, fd, most, &drained);
        if (count < 0) Py_CLEAR(batch);
        for (int i = 0; i < count; i++) {
            PyObject *one = as_tuple(&self->taken[i]);
            if (one == NULL || PyList_Append(batch, one) < 0) {
                Py_XDECREF(one);
                Py_DECREF(batch);
                return NULL;
            }
            Py_DECREF(one);
        }
    }
    return batch;
}

/* In one piece, where its MAC is of all of it, or it is small. */
static int send_joined(Datagrams *self, const datagram_piece *pieces, int count, size_t length, int channel,
                       const struct sockaddr_in *to, int to_count) {
    put_header(self, channel, self->outgoing);
    size_t size = HEADER_BYTES;
    for (int i = 0; i < count; size += pieces[i++].size) memcpy(self->outgoing + size, pieces[i].data, pieces[i].size);
    mac_of(self, self->outgoing, size, self->outgoing + size);
    for (int i = 0; i < to_count; i++)
        if (send_to(self, &to[i], HEADER_BYTES + length + MAC_BYTES) < 0) return -1;
    return 0;
}

/* From where the pieces are. */
static int send_scattered(Datagrams *self, const datagram_piece *pieces, int count, size_t length, int channel,
                          const struct sockaddr_in *to, int to_count) {
    uint8_t header[HEADER_BYTES], mac[MAC_BYTES];
    struct iovec parts[PIECES_MAX + 2];
    put_header(self, channel, header);
    uint32_t crc = crc32_of(header, HEADER_BYTES);
    parts[0] = (struct iovec){header, HEADER_BYTES};
    for (int i = 0; i < count; i++) {
        const datagram_piece *piece = &pieces[i];
        parts[i + 1] = (struct iovec){(void *)piece->data, piece->size};
        if (piece->has_checksum)
            crc = crc32_joined(crc, piece->checksum, piece->size);
        else
            crc = ~crc32_over(~crc, piece->data, piece->size);
    }
    put_crc(crc, mac);
    parts[count + 1] = (struct iovec){mac, MAC_BYTES};
    for (int i = 0; i < to_count; i++) {
        exit_t exit = exit_to(self, &to[i]);
        struct msghdr message = {.msg_name = (void *)exit.to, .msg_namelen = exit.size, .msg_iov = parts,
                                 .msg_iovlen = (size_t)count + 2};
        ssize_t done;
        do {
            done = sendmsg(exit.fd, &message, MSG_DONTWAIT);
        } while (done < 0 && errno == EINTR);
        if (count_sent(self, done, HEADER_BYTES + length + MAC_BYTES) < 0) return -1;
    }
    return 0;
}

static int send_pieces(PyObject *object, const datagram_piece *pieces, int count, int channel,
                       const struct sockaddr_in *to, int to_count) {
    Datagrams *self = (Datagrams *)object;
    size_t length = 0;
    for (int i = 0; i < count; i++) length += pieces[i].size;
    if (!may_seal(self, length, channel)) return -1;
    int is_scattered = length > SMALL && count <= PIECES_MAX && self->kinds[self->prefix[1]] == PUBLIC_KEY;
    return (is_scattered ? send_scattered : send_joined)(self, pieces, count, length, channel, to, to_count);
}

/* -- several that leave together --------------------------------------------------------------------- */

static int send_segments(Datagrams *self, const struct sockaddr_in *to) {
    struct iovec all = {self->batch, self->batched * self->segment - (self->segment - self->last_segment)};
    union {
        struct cmsghdr header;
        uint8_t bytes[CMSG_SPACE(sizeof(uint16_t))];
    } control = {0};
    uint16_t segment = (uint16_t)self->segment;
    control.header = (struct cmsghdr){.cmsg_level = IPPROTO_UDP, .cmsg_type = UDP_SEGMENT,
                                      .cmsg_len = CMSG_LEN(sizeof segment)};
    memcpy(CMSG_DATA(&control.header), &segment, sizeof segment);
    exit_t exit = exit_to(self, to);
    struct msghdr message = {.msg_name = (void *)exit.to, .msg_namelen = exit.size, .msg_iov = &all, .msg_iovlen = 1,
                             .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    ssize_t done;
    do {
        done = sendmsg(exit.fd, &message, MSG_DONTWAIT);
    } while (done < 0 && errno == EINTR);
    if (done < 0 && (errno == EINVAL || errno == EIO || errno == EMSGSIZE || errno == ENOPROTOOPT || errno == EOPNOTSUPP)) {
        self->cannot_segment = 1; /* this kernel, or the way that packets take; if it is the size, the next ones say so */
        return 1;
    }
    *(done < 0 ? &self->lost_at_sending : &self->sent) += self->batched - 1; /* and one more: */
    return count_sent(self, done, all.iov_len);
}

static int send_one_by_one(Datagrams *self, const struct sockaddr_in *to) {
    exit_t exit = exit_to(self, to);
    for (size_t i = 0; i < self->batched; i++) {
        size_t size = i + 1 < self->batched ? self->segment : self->last_segment;
        ssize_t done;
        do {
            done = sendto(exit.fd, self->batch + i * self->segment, size, MSG_DONTWAIT,
                          (const struct sockaddr *)exit.to, exit.size);
        } while (done < 0 && errno == EINTR);
        if (count_sent(self, done, size) < 0) return -1;
    }
    return 0;
}

static void seal_batch(Datagrams *self) {
    for (size_t i = 0; i < self->batched; i++) {
        uint8_t *sealed = self->batch + i * self->segment;
        size_t end = (i + 1 < self->batched ? self->segment : self->last_segment) - MAC_BYTES;
        mac_of(self, sealed, end, sealed + end);
    }
}

static int send_batch(Datagrams *self, const struct sockaddr_in *to, int to_count) {
    int failed = 0;
    seal_batch(self);
    for (int i = 0; i < to_count && failed >= 0; i++) {
        failed = self->batched > 1 && !self->cannot_segment ? send_segments(self, &to[i]) : 1;
        if (failed > 0) failed = send_one_by_one(self, &to[i]);
    }
    self->batched = 0;
    return failed;
}

/* All of a batch are of one size, but for the last one, which may be smaller. */
static int send_one_of(PyObject *object, const datagram_piece *pieces, int count, int channel,
                       const struct sockaddr_in *to, int to_count, int more) {
    Datagrams *self = (Datagrams *)object;
    size_t length = 0;
    for (int i = 0; i < count; i++) length += pieces[i].size;
    size_t size = HEADER_BYTES + length + MAC_BYTES;
    if (2 * size > BATCH_BYTES) return send_pieces(object, pieces, count, channel, to, to_count);
    if (!may_seal(self, length, channel)) return -1;
    if (!self->batch && !(self->batch = PyMem_Malloc(BATCH_BYTES))) {
        PyErr_NoMemory();
        return -1;
    }
    if (self->batched && (size > self->segment || (self->batched + 1) * self->segment > BATCH_BYTES) &&
        send_batch(self, to, to_count) < 0)
        return -1;
    if (!self->batched) self->segment = size;
    uint8_t *sealed = self->batch + self->batched++ * self->segment;
    self->last_segment = size;
    put_header(self, channel, sealed);
    size_t at = HEADER_BYTES;
    for (int i = 0; i < count; at += pieces[i++].size) memcpy(sealed + at, pieces[i].data, pieces[i].size);
    if (more && size == self->segment && self->batched < SEGMENTS_MAX) return 0;
    return send_batch(self, to, to_count);
}

static datagram_functions FUNCTIONS = {take, hear, open_heard, as_tuple, send_pieces, read_address, send_one_of};

/* -- the type ------------------------------------------------------------------------------------- */

/* A number and bytes of a dictionary; 0: there are no more, -1: they are something else. */
static int next_key(PyObject *keys, Py_ssize_t *at, long *number, char **bytes, Py_ssize_t *size) {
    PyObject *index, *key;
    if (!PyDict_Next(keys, at, &index, &key)) return 0;
    *number = PyLong_AsLong(index);
    if (PyErr_Occurred() || PyBytes_AsStringAndSize(key, bytes, size) < 0) return -1;
    return 1;
}

static int read_keys(Datagrams *self, PyObject *keys, const uint8_t *person, Py_ssize_t person_size) {
    Py_ssize_t at = 0, size;
    long index;
    char *bytes;
    int found;
    while ((found = next_key(keys, &at, &index, &bytes, &size)) > 0) {
        if (index < 0 || index > 255 || size > BLAKE2B_LONGEST_KEY) {
            PyErr_SetString(PyExc_ValueError, "a key has a number up to 255 and at most 64 bytes");
            return -1;
        }
        self->kinds[index] = size ? SECRET_KEY : PUBLIC_KEY;
        blake2b_prepare(&self->keys[index], (uint8_t *)bytes, (size_t)size, person, (size_t)person_size);
    }
    return found;
}

/* Each key that is secret has them, and no other. */
static int read_gmac_keys(Datagrams *self, PyObject *keys, int most) {
    Py_ssize_t at = 0, size;
    long index;
    char *bytes;
    int found, missing = 0;
    for (int number = 0; number < 256; number++) missing += self->kinds[number] == SECRET_KEY;
    while (keys && (found = next_key(keys, &at, &index, &bytes, &size)) != 0) {
        if (found < 0) return -1;
        if (index < 0 || index > 255 || size != GMAC_KEYS || self->kinds[index] != SECRET_KEY) {
            PyErr_SetString(PyExc_ValueError, "those of GMAC have 32 bytes, and the number of a key");
            return -1;
        }
        gmac_prepare(&self->gmac_keys[index], (uint8_t *)bytes, most);
        missing--;
    }
    if (!missing) return 0;
    PyErr_SetString(PyExc_ValueError, "a key has none for GMAC");
    return -1;
}

static int set_prefix_bytes(Datagrams *self, const char *prefix, Py_ssize_t size) {
    if (size != PREFIX_BYTES || !is_version((uint8_t)prefix[0]) || !has_key(self, (uint8_t *)prefix)) {
        PyErr_SetString(PyExc_ValueError, "a prefix has 24 bytes, a version, and the number of a key that is there");
        return -1;
    }
    memcpy(self->prefix, prefix, PREFIX_BYTES);
    return 0;
}

static int begin(Datagrams *self, PyObject *args, PyObject *names) {
    static char *NAMES[] = {"sending_fd", "largest", "prefix", "own_birth", "keys", "person",
                            "gmac_keys",  "gmac_most", NULL};
    const char *prefix, *own_birth, *person;
    Py_ssize_t largest, prefix_size, birth_size, person_size;
    PyObject *keys, *gmac_keys = NULL;
    int gmac_most = GMAC_WIDE;
    if (self->keys != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "it is begun once");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(args, names, "iny#y#O!y#|O!i", NAMES, &self->sending_fd, &largest, &prefix,
                                     &prefix_size, &own_birth, &birth_size, &PyDict_Type, &keys, &person,
                                     &person_size, &PyDict_Type, &gmac_keys, &gmac_most))
        return -1;
    if (largest < ENVELOPE_BYTES || largest > 65507 || birth_size != BIRTH_BYTES || person_size > BLAKE2B_PERSON) {
        PyErr_SetString(PyExc_ValueError, "a size is wrong");
        return -1;
    }
    self->largest = (size_t)largest;
    self->keys = PyMem_Calloc(256, sizeof *self->keys);
    self->gmac_keys = PyMem_Calloc(256, sizeof *self->gmac_keys);
    self->incoming_room = comes_together(self) ? DATAGRAMS_HEARD_BYTES : self->largest + 1;
    self->incoming = PyMem_RawMalloc(AT_ONCE * self->incoming_room);
    self->outgoing = PyMem_Malloc(self->largest);
    if (!self->keys || !self->gmac_keys || !self->outgoing || !self->incoming) {
        PyErr_NoMemory();
        return -1;
    }
    prepare_receiving(self);
    for (int channel = 0; channel < CHANNELS; channel++) self->next[channel] = 1;
    memcpy(self->own_birth, own_birth, BIRTH_BYTES);
    if (read_keys(self, keys, (const uint8_t *)person, person_size) < 0) return -1;
    if (read_gmac_keys(self, gmac_keys, gmac_most) < 0) return -1;
    return set_prefix_bytes(self, prefix, prefix_size);
}

static PyObject *set_prefix(Datagrams *self, PyObject *value) {
    char *bytes;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(value, &bytes, &size) < 0 || set_prefix_bytes(self, bytes, size) < 0) return NULL;
    Py_RETURN_NONE;
}

/* In place of those that were: addresses, each with a socket that is connected with it. */
static PyObject *set_ways(Datagrams *self, PyObject *ways) {
    way_t read[WAYS_MAX];
    PyObject *all = PySequence_Fast(ways, "ways are a sequence");
    Py_ssize_t count = all ? PySequence_Fast_GET_SIZE(all) : -1;
    int failed = count < 0;
    if (count > WAYS_MAX) {
        PyErr_SetString(PyExc_ValueError, "too many ways");
        failed = 1;
    }
    for (Py_ssize_t i = 0; !failed && i < count; i++) {
        PyObject *one = PySequence_Fast_GET_ITEM(all, i), *pair;
        failed = !PyArg_ParseTuple(one, "Oi", &pair, &read[i].fd) || read_address(pair, &read[i].to) < 0;
    }
    Py_XDECREF(all);
    if (failed) return NULL;
    memcpy(self->ways, read, (size_t)count * sizeof *read);
    self->way_count = (int)count;
    Py_RETURN_NONE;
}

/* Its numbers may be another's from now on. */
static PyObject *close_it(Datagrams *self, PyObject *unused) {
    PyMem_Free(self->outgoing);
    PyMem_Free(self->batch);
    PyMem_RawFree(self->incoming);
    self->outgoing = self->incoming = self->batch = NULL;
    self->sending_fd = -1;
    self->way_count = 0;
    Py_RETURN_NONE;
}

static PyObject *counts(Datagrams *self, PyObject *unused) {
    return Py_BuildValue("{sKsKsKsKsKsKsKsK}", "sent", self->sent, "sent_bytes", self->sent_bytes,
                         "received_bytes", self->received_bytes, "lost_at_sending", self->lost_at_sending,
                         "receive_errors", self->receive_errors, "malformed", self->malformed, "wrong_key",
                         self->wrong_key, "own", self->own);
}

static void end(Datagrams *self) {
    PyMem_Free(self->keys);
    PyMem_Free(self->gmac_keys);
    PyMem_Free(self->outgoing);
    PyMem_Free(self->batch);
    PyMem_RawFree(self->incoming);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef METHODS[] = {
    {"seal", (PyCFunction)seal, METH_VARARGS, "seal(data, channel): the datagram."},
    {"send", (PyCFunction)send_data, METH_VARARGS, "send(data, channel, addresses): sealed once, to each."},
    {"receive", (PyCFunction)receive, METH_VARARGS, "receive(fd, most): what has come and is authentic; more than that if they came together."},
    {"set_prefix", (PyCFunction)set_prefix, METH_O, "set_prefix(prefix): of what is sealed from now on."},
    {"set_ways", (PyCFunction)set_ways, METH_O, "set_ways(ways): pairs of an address and a socket's number, by which what goes there leaves."},
    {"close", (PyCFunction)close_it, METH_NOARGS, "close(): nothing is sent or received from now on."},
    {"counts", (PyCFunction)counts, METH_NOARGS, "counts(): by name."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject DatagramsType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "llft.runtime.transport.datagrams.Datagrams",
    .tp_basicsize = sizeof(Datagrams),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Envelopes and UDP.",
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)begin,
    .tp_dealloc = (destructor)end,
    .tp_methods = METHODS,
};

/* For tests: what no datagram shows of it. */
static PyObject *gmac_of(PyObject *module, PyObject *args) {
    Py_buffer key, number, data;
    int most;
    if (!PyArg_ParseTuple(args, "y*y*y*i", &key, &number, &data, &most)) return NULL;
    uint8_t keys[GMAC_KEYS] = {0}, tag[GMAC_TAG];
    int is_key = key.len == GMAC_TAG;
    if (is_key) {
        gmac_key prepared;
        memcpy(keys, key.buf, GMAC_TAG);
        gmac_prepare(&prepared, keys, most);
        gmac(&prepared, number.buf, (size_t)number.len, data.buf, (size_t)data.len, tag);
    }
    PyBuffer_Release(&key);
    PyBuffer_Release(&number);
    PyBuffer_Release(&data);
    if (is_key) return PyBytes_FromStringAndSize((char *)tag, GMAC_TAG);
    return PyErr_Format(PyExc_ValueError, "a key has 16 bytes");
}

static PyMethodDef FUNCTIONS_OF_MODULE[] = {
    {"gmac", gmac_of, METH_VARARGS, "gmac(key, number, data, most): as the standard has it."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "datagrams", "Envelopes and UDP, compiled.", -1,
                                    FUNCTIONS_OF_MODULE};

PyMODINIT_FUNC PyInit_datagrams(void) {
    crc32_begin();
    if (PyType_Ready(&DatagramsType) < 0) return NULL;
    PyObject *module = PyModule_Create(&MODULE);
    if (module == NULL) return NULL;
    Py_INCREF(&DatagramsType);
    PyObject *functions = PyCapsule_New(&FUNCTIONS, DATAGRAMS_CAPSULE, NULL);
    if (PyModule_AddObject(module, "Datagrams", (PyObject *)&DatagramsType) < 0 || functions == NULL ||
        PyModule_AddIntConstant(module, "GMAC_BEST", gmac_best()) < 0 ||
        PyModule_AddObject(module, "functions", functions) < 0) {
        Py_XDECREF(functions);
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
