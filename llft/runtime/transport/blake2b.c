/* See blake2b.h. Little-endian machines only, as all are that the lane is compiled for. */

#include "blake2b.h"

#include <string.h>

static const uint64_t START[8] = {
    0x6a09e667f3bcc908u, 0xbb67ae8584caa73bu, 0x3c6ef372fe94f82bu, 0xa54ff53a5f1d36f1u,
    0x510e527fade682d1u, 0x9b05688c2b3e6c1fu, 0x1f83d9abfb41bd6bu, 0x5be0cd19137e2179u,
};

static const uint8_t ORDER[12][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
};

static inline uint64_t turned(uint64_t word, unsigned bits) { return word >> bits | word << (64 - bits); }

/* Of words, and of vectors of them, which know how to be turned. */
#define MIX(r, i, a, b, c, d)                   \
    do {                                        \
        a += b + m[ORDER[r][2 * (i)]];          \
        d = TURNED(d ^ a, 32);                  \
        c += d;                                 \
        b = TURNED(b ^ c, 24);                  \
        a += b + m[ORDER[r][2 * (i) + 1]];      \
        d = TURNED(d ^ a, 16);                  \
        c += d;                                 \
        b = TURNED(b ^ c, 63);                  \
    } while (0)

#define ROUND(r)                                \
    do {                                        \
        MIX(r, 0, v[0], v[4], v[8], v[12]);     \
        MIX(r, 1, v[1], v[5], v[9], v[13]);     \
        MIX(r, 2, v[2], v[6], v[10], v[14]);    \
        MIX(r, 3, v[3], v[7], v[11], v[15]);    \
        MIX(r, 4, v[0], v[5], v[10], v[15]);    \
        MIX(r, 5, v[1], v[6], v[11], v[12]);    \
        MIX(r, 6, v[2], v[7], v[8], v[13]);     \
        MIX(r, 7, v[3], v[4], v[9], v[14]);     \
    } while (0)

#define ROUNDS  \
    ROUND(0);   \
    ROUND(1);   \
    ROUND(2);   \
    ROUND(3);   \
    ROUND(4);   \
    ROUND(5);   \
    ROUND(6);   \
    ROUND(7);   \
    ROUND(8);   \
    ROUND(9);   \
    ROUND(10);  \
    ROUND(11)

#define TURNED turned

static void compress(uint64_t h[8], const uint8_t *block, uint64_t count, int last) {
    uint64_t m[16], v[16];
    memcpy(m, block, sizeof m);
    memcpy(v, h, 64);
    memcpy(v + 8, START, 64);
    v[12] ^= count;
    if (last) v[14] = ~v[14];
    ROUNDS;
    for (int i = 0; i < 8; i++) h[i] ^= v[i] ^ v[i + 8];
}

void blake2b_prepare(blake2b_key *prepared, const uint8_t *key, size_t key_size, const uint8_t *person,
                     size_t person_size) {
    uint8_t parameters[64] = {BLAKE2B_DIGEST, (uint8_t)key_size, 1, 1};
    uint8_t block[BLAKE2B_BLOCK] = {0};
    uint64_t words[8];
    memcpy(parameters + 48, person, person_size);
    memcpy(words, parameters, sizeof words);
    for (int i = 0; i < 8; i++) prepared->h[i] = START[i] ^ words[i];
    memcpy(block, key, key_size);
    compress(prepared->h, block, BLAKE2B_BLOCK, 0);
}

void blake2b_mac(const blake2b_key *prepared, const uint8_t *data, size_t size, uint8_t digest[BLAKE2B_DIGEST]) {
    uint64_t h[8], count = BLAKE2B_BLOCK;
    uint8_t block[BLAKE2B_BLOCK] = {0};
    memcpy(h, prepared->h, sizeof h);
    for (; size > BLAKE2B_BLOCK; size -= BLAKE2B_BLOCK, data += BLAKE2B_BLOCK) {
        count += BLAKE2B_BLOCK;
        compress(h, data, count, 0);
    }
    memcpy(block, data, size);
    compress(h, block, count + size, 1);
    memcpy(digest, h, BLAKE2B_DIGEST);
}

/* -- eight side by side ------------------------------------------------------------------------------ */

static void one_by_one(const blake2b_key *prepared, const uint8_t *const data[BLAKE2B_AT_ONCE], size_t size,
                       uint8_t digests[BLAKE2B_AT_ONCE][BLAKE2B_DIGEST]) {
    for (int at = 0; at < BLAKE2B_AT_ONCE; at++) blake2b_mac(prepared, data[at], size, digests[at]);
}

#if defined __x86_64__
#include <immintrin.h>

#define WIDE __attribute__((target("avx512f")))
#undef TURNED
#define TURNED(words, bits) ((words_of_eight)_mm512_ror_epi64((__m512i)(words), bits))

/* A word of each message. */
typedef unsigned long long words_of_eight __attribute__((vector_size(64)));

WIDE static inline words_of_eight same(uint64_t word) { return (words_of_eight)_mm512_set1_epi64((long long)word); }

/* Lanes of 16 bytes: the first one of each, the second one, ... */
WIDE static inline void transpose_lanes(const __m512i from[4], words_of_eight *to, int step) {
    __m512i low[2], high[2];
    for (int k = 0; k < 2; k++) {
        low[k] = _mm512_shuffle_i64x2(from[2 * k], from[2 * k + 1], 0x88);
        high[k] = _mm512_shuffle_i64x2(from[2 * k], from[2 * k + 1], 0xdd);
    }
    to[0] = (words_of_eight)_mm512_shuffle_i64x2(low[0], low[1], 0x88);
    to[step] = (words_of_eight)_mm512_shuffle_i64x2(high[0], high[1], 0x88);
    to[2 * step] = (words_of_eight)_mm512_shuffle_i64x2(low[0], low[1], 0xdd);
    to[3 * step] = (words_of_eight)_mm512_shuffle_i64x2(high[0], high[1], 0xdd);
}

/* Eight words of each message: by words. */
WIDE static inline void transpose(const uint8_t *const data[BLAKE2B_AT_ONCE], size_t at, words_of_eight *words) {
    __m512i even[4], odd[4];
    for (int k = 0; k < 4; k++) {
        __m512i one = _mm512_loadu_si512(data[2 * k] + at), other = _mm512_loadu_si512(data[2 * k + 1] + at);
        even[k] = _mm512_unpacklo_epi64(one, other);
        odd[k] = _mm512_unpackhi_epi64(one, other);
    }
    transpose_lanes(even, words, 2);
    transpose_lanes(odd, words + 1, 2);
}

WIDE static void compress_eight(words_of_eight h[8], const uint8_t *const data[BLAKE2B_AT_ONCE], size_t at,
                                uint64_t count, int last) {
    words_of_eight m[16], v[16];
    transpose(data, at, m);
    transpose(data, at + 64, m + 8);
    for (int i = 0; i < 8; i++) v[i] = h[i], v[i + 8] = same(START[i]);
    v[12] ^= same(count);
    if (last) v[14] = ~v[14];
    ROUNDS;
    for (int i = 0; i < 8; i++) h[i] ^= v[i] ^ v[i + 8];
}

WIDE static void side_by_side(const blake2b_key *prepared, const uint8_t *const data[BLAKE2B_AT_ONCE], size_t size,
                              uint8_t digests[BLAKE2B_AT_ONCE][BLAKE2B_DIGEST]) {
    words_of_eight h[8];
    uint8_t blocks[BLAKE2B_AT_ONCE][BLAKE2B_BLOCK] = {{0}};
    const uint8_t *rest[BLAKE2B_AT_ONCE];
    uint64_t count = BLAKE2B_BLOCK;
    size_t at = 0;
    for (int i = 0; i < 8; i++) h[i] = same(prepared->h[i]);
    for (; size - at > BLAKE2B_BLOCK; at += BLAKE2B_BLOCK) {
        count += BLAKE2B_BLOCK;
        compress_eight(h, data, at, count, 0);
    }
    for (int k = 0; k < BLAKE2B_AT_ONCE; k++) {
        memcpy(blocks[k], data[k] + at, size - at);
        rest[k] = blocks[k];
    }
    compress_eight(h, rest, 0, count + (size - at), 1);
    for (int k = 0; k < BLAKE2B_AT_ONCE; k++) {
        uint64_t words[2] = {h[0][k], h[1][k]};
        memcpy(digests[k], words, BLAKE2B_DIGEST);
    }
}

static int is_wide(void) {
    static int known = -1;
    if (known < 0) {
        __builtin_cpu_init();
        known = __builtin_cpu_supports("avx512f") != 0;
    }
    return known;
}
#else
#define side_by_side one_by_one
static int is_wide(void) { return 0; }
#endif

void blake2b_macs(const blake2b_key *prepared, const uint8_t *const data[BLAKE2B_AT_ONCE], size_t size,
                  uint8_t digests[BLAKE2B_AT_ONCE][BLAKE2B_DIGEST]) {
    (is_wide() ? side_by_side : one_by_one)(prepared, data, size, digests);
}
