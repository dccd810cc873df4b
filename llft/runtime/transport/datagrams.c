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
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "blake2b.h"
#include "datagrams.h"
#include "../../wire/crc32.h"

enum {
    VERSION = 0xF1,
    BIRTH_AT = 6,
    BIRTH_BYTES = 16,
    IDENTITY_AT = 2,
    PREFIX_BYTES = 24, /* version, key number, identity */
    HEADER_BYTES = PREFIX_BYTES + 8,
    MAC_BYTES = BLAKE2B_DIGEST,
    ENVELOPE_BYTES = HEADER_BYTES + MAC_BYTES,
    CHANNELS = 3,
    CHANNEL_BIT = 62,
    AT_ONCE = 32, /* received by one call */
    CRC_BYTES = 4,
};

static const uint8_t CRC_PADDING[MAC_BYTES - CRC_BYTES] = "llft, no key";

typedef enum { NO_KEY, PUBLIC_KEY, SECRET_KEY } key_kind;

typedef struct {
    PyObject_HEAD
    int sending_fd;
    size_t largest;
    uint8_t prefix[PREFIX_BYTES];
    uint8_t own_birth[BIRTH_BYTES];
    uint64_t next[CHANNELS];
    uint8_t kinds[256];
    blake2b_key *keys; /* by number */
    uint8_t *outgoing;
    uint8_t *incoming; /* AT_ONCE datagrams of largest + 1 bytes; pages that nothing came into are not there */
    struct mmsghdr messages[AT_ONCE];
    struct iovec pieces[AT_ONCE];
    struct sockaddr_in addresses[AT_ONCE];
    unsigned long long sent, sent_bytes, received_bytes, lost_at_sending, receive_errors;
    unsigned long long malformed, wrong_key, own;
} Datagrams;

static void mac_of(const Datagrams *self, uint8_t number, const uint8_t *body, size_t size, uint8_t *mac) {
    if (self->kinds[number] == SECRET_KEY) {
        blake2b_mac(&self->keys[number], body, size, mac);
        return;
    }
    uint32_t crc = htonl(crc32_of(body, size));
    memcpy(mac, &crc, CRC_BYTES);
    memcpy(mac + CRC_BYTES, CRC_PADDING, sizeof CRC_PADDING);
}

/* -- sending -------------------------------------------------------------------------------------- */

static Py_ssize_t seal_into(Datagrams *self, const struct iovec *pieces, int count, int channel) {
    size_t length = 0;
    for (int i = 0; i < count; i++) length += pieces[i].iov_len;
    if (self->outgoing == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "it was never begun, or is closed");
        return -1;
    }
    if (channel < 0 || channel >= CHANNELS) {
        PyErr_SetString(PyExc_ValueError, "there is no such channel");
        return -1;
    }
    if (length > self->largest - ENVELOPE_BYTES) {
        PyErr_SetString(PyExc_ValueError, "the datagram is too large");
        return -1;
    }
    uint64_t sequence = (uint64_t)channel << CHANNEL_BIT | self->next[channel]++;
    uint64_t big_endian = __builtin_bswap64(sequence);
    memcpy(self->outgoing, self->prefix, PREFIX_BYTES);
    memcpy(self->outgoing + PREFIX_BYTES, &big_endian, sizeof big_endian);
    size_t size = HEADER_BYTES;
    for (int i = 0; i < count; size += pieces[i++].iov_len)
        memcpy(self->outgoing + size, pieces[i].iov_base, pieces[i].iov_len);
    mac_of(self, self->prefix[1], self->outgoing, size, self->outgoing + size);
    return (Py_ssize_t)size + MAC_BYTES;
}

static PyObject *seal(Datagrams *self, PyObject *args) {
    Py_buffer data;
    int channel;
    if (!PyArg_ParseTuple(args, "y*i", &data, &channel)) return NULL;
    Py_ssize_t size = seal_into(self, &(struct iovec){data.buf, (size_t)data.len}, 1, channel);
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
static int send_to(Datagrams *self, const struct sockaddr_in *address, size_t size) {
    ssize_t done;
    do {
        done = sendto(self->sending_fd, self->outgoing, size, MSG_DONTWAIT, (const struct sockaddr *)address,
                      sizeof *address);
    } while (done < 0 && errno == EINTR);
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

static PyObject *send_data(Datagrams *self, PyObject *args) {
    Py_buffer data;
    int channel;
    PyObject *to;
    if (!PyArg_ParseTuple(args, "y*iO", &data, &channel, &to)) return NULL;
    PyObject *addresses = PySequence_Fast(to, "addresses are a sequence"); /* may run Python, so it is first */
    struct iovec piece = {data.buf, (size_t)data.len};
    Py_ssize_t size = addresses == NULL ? -1 : seal_into(self, &piece, 1, channel);
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

/* Whether it is to be looked at; the cheap reasons against it come first. */
static int is_authentic(Datagrams *self, const uint8_t *datagram, size_t size) {
    uint8_t mac[MAC_BYTES];
    if (size < ENVELOPE_BYTES || size > self->largest || datagram[0] != VERSION) {
        self->malformed++;
        return 0;
    }
    if (!memcmp(datagram + BIRTH_AT, self->own_birth, BIRTH_BYTES)) {
        self->own++;
        return 0;
    }
    if (self->kinds[datagram[1]] == NO_KEY) {
        self->wrong_key++;
        return 0;
    }
    mac_of(self, datagram[1], datagram, size - MAC_BYTES, mac);
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

static datagram_taken opened(const uint8_t *datagram, size_t size, const struct sockaddr_in *address) {
    uint64_t sequence;
    memcpy(&sequence, datagram + PREFIX_BYTES, sizeof sequence);
    sequence = __builtin_bswap64(sequence);
    return (datagram_taken){
        .identity = datagram + IDENTITY_AT,
        .channel = (int)(sequence >> CHANNEL_BIT),
        .number = sequence & (((uint64_t)1 << CHANNEL_BIT) - 1),
        .data = datagram + HEADER_BYTES,
        .size = size - ENVELOPE_BYTES,
        .from = (uint64_t)ntohl(address->sin_addr.s_addr) << 16 | ntohs(address->sin_port),
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
        self->pieces[i] = (struct iovec){self->incoming + (size_t)i * (self->largest + 1), self->largest + 1};
        self->messages[i].msg_hdr = (struct msghdr){
            .msg_name = &self->addresses[i],
            .msg_namelen = sizeof self->addresses[i],
            .msg_iov = &self->pieces[i],
            .msg_iovlen = 1,
        };
    }
}

static int take(PyObject *object, int fd, datagram_taken *taken, int most, int *drained) {
    Datagrams *self = (Datagrams *)object;
    int wanted = most < AT_ONCE ? most : AT_ONCE, found = 0;
    *drained = 1;
    if (self->incoming == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "it was never begun, or is closed");
        return -1;
    }
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
        const uint8_t *datagram = self->pieces[i].iov_base;
        size_t size = self->messages[i].msg_len;
        if (!is_authentic(self, datagram, size)) continue;
        self->received_bytes += size;
        taken[found++] = opened(datagram, size, &self->addresses[i]);
    }
    *drained = count < wanted;
    return found;
}

static int open_one(PyObject *object, const uint8_t *datagram, size_t size, const struct sockaddr_in *from,
                    datagram_taken *taken) {
    Datagrams *self = (Datagrams *)object;
    if (!is_authentic(self, datagram, size)) return 0;
    self->received_bytes += size;
    *taken = opened(datagram, size, from);
    return 1;
}

static PyObject *receive(Datagrams *self, PyObject *args) {
    int fd, most, drained = 0;
    datagram_taken taken[AT_ONCE];
    if (!PyArg_ParseTuple(args, "ii", &fd, &most)) return NULL;
    PyObject *batch = PyList_New(0);
    for (; batch != NULL && most > 0 && !drained; most -= AT_ONCE) {
        int count = take((PyObject *)self, fd, taken, most, &drained);
        if (count < 0) Py_CLEAR(batch);
        for (int i = 0; i < count; i++) {
            PyObject *one = as_tuple(&taken[i]);
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

static int send_pieces(PyObject *object, const struct iovec *pieces, int count, int channel,
                       const struct sockaddr_in *to, int to_count) {
    Datagrams *self = (Datagrams *)object;
    Py_ssize_t size = seal_into(self, pieces, count, channel);
    if (size < 0) return -1;
    for (int i = 0; i < to_count; i++)
        if (send_to(self, &to[i], (size_t)size) < 0) return -1;
    return 0;
}

static datagram_functions FUNCTIONS = {take, open_one, as_tuple, send_pieces, read_address};

/* -- the type ------------------------------------------------------------------------------------- */

static int read_keys(Datagrams *self, PyObject *keys, const uint8_t *person, Py_ssize_t person_size) {
    PyObject *number, *key;
    Py_ssize_t at = 0;
    while (PyDict_Next(keys, &at, &number, &key)) {
        long index = PyLong_AsLong(number);
        char *bytes;
        Py_ssize_t size;
        if (PyErr_Occurred() || PyBytes_AsStringAndSize(key, &bytes, &size) < 0) return -1;
        if (index < 0 || index > 255 || size > BLAKE2B_LONGEST_KEY) {
            PyErr_SetString(PyExc_ValueError, "a key has a number up to 255 and at most 64 bytes");
            return -1;
        }
        self->kinds[index] = size ? SECRET_KEY : PUBLIC_KEY;
        blake2b_prepare(&self->keys[index], (uint8_t *)bytes, (size_t)size, person, (size_t)person_size);
    }
    return 0;
}

static int set_prefix_bytes(Datagrams *self, const char *prefix, Py_ssize_t size) {
    if (size != PREFIX_BYTES || self->kinds[(uint8_t)prefix[1]] == NO_KEY) {
        PyErr_SetString(PyExc_ValueError, "a prefix has 24 bytes, and the number of a key that is there");
        return -1;
    }
    memcpy(self->prefix, prefix, PREFIX_BYTES);
    return 0;
}

static int begin(Datagrams *self, PyObject *args, PyObject *names) {
    static char *NAMES[] = {"sending_fd", "largest", "prefix", "own_birth", "keys", "person", NULL};
    const char *prefix, *own_birth, *person;
    Py_ssize_t largest, prefix_size, birth_size, person_size;
    PyObject *keys;
    if (self->keys != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "it is begun once");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(args, names, "iny#y#O!y#", NAMES, &self->sending_fd, &largest, &prefix,
                                     &prefix_size, &own_birth, &birth_size, &PyDict_Type, &keys, &person,
                                     &person_size))
        return -1;
    if (largest < ENVELOPE_BYTES || largest > 65507 || birth_size != BIRTH_BYTES || person_size > BLAKE2B_PERSON) {
        PyErr_SetString(PyExc_ValueError, "a size is wrong");
        return -1;
    }
    self->largest = (size_t)largest;
    self->keys = PyMem_Calloc(256, sizeof *self->keys);
    self->incoming = PyMem_RawMalloc(AT_ONCE * (self->largest + 1));
    self->outgoing = PyMem_Malloc(self->largest);
    if (!self->keys || !self->outgoing || !self->incoming) {
        PyErr_NoMemory();
        return -1;
    }
    prepare_receiving(self);
    for (int channel = 0; channel < CHANNELS; channel++) self->next[channel] = 1;
    memcpy(self->own_birth, own_birth, BIRTH_BYTES);
    if (read_keys(self, keys, (const uint8_t *)person, person_size) < 0) return -1;
    return set_prefix_bytes(self, prefix, prefix_size);
}

static PyObject *set_prefix(Datagrams *self, PyObject *value) {
    char *bytes;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(value, &bytes, &size) < 0 || set_prefix_bytes(self, bytes, size) < 0) return NULL;
    Py_RETURN_NONE;
}

/* Its numbers may be another's from now on. */
static PyObject *close_it(Datagrams *self, PyObject *unused) {
    PyMem_Free(self->outgoing);
    PyMem_RawFree(self->incoming);
    self->outgoing = self->incoming = NULL;
    self->sending_fd = -1;
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
    PyMem_Free(self->outgoing);
    PyMem_RawFree(self->incoming);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef METHODS[] = {
    {"seal", (PyCFunction)seal, METH_VARARGS, "seal(data, channel): the datagram."},
    {"send", (PyCFunction)send_data, METH_VARARGS, "send(data, channel, addresses): sealed once, to each."},
    {"receive", (PyCFunction)receive, METH_VARARGS, "receive(fd, most): what has come and is authentic."},
    {"set_prefix", (PyCFunction)set_prefix, METH_O, "set_prefix(prefix): of what is sealed from now on."},
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

static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "datagrams", "Envelopes and UDP, compiled.", -1};

PyMODINIT_FUNC PyInit_datagrams(void) {
    crc32_begin();
    if (PyType_Ready(&DatagramsType) < 0) return NULL;
    PyObject *module = PyModule_Create(&MODULE);
    if (module == NULL) return NULL;
    Py_INCREF(&DatagramsType);
    PyObject *functions = PyCapsule_New(&FUNCTIONS, DATAGRAMS_CAPSULE, NULL);
    if (PyModule_AddObject(module, "Datagrams", (PyObject *)&DatagramsType) < 0 || functions == NULL ||
        PyModule_AddObject(module, "functions", functions) < 0) {
        Py_XDECREF(functions);
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
