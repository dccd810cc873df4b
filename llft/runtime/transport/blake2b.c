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

#define MIX(r, i, a, b, c, d)                   \
    do {                                        \
        a += b + m[ORDER[r][2 * (i)]];          \
        d = turned(d ^ a, 32);                  \
        c += d;                                 \
        b = turned(b ^ c, 24);                  \
        a += b + m[ORDER[r][2 * (i) + 1]];      \
        d = turned(d ^ a, 16);                  \
        c += d;                                 \
        b = turned(b ^ c, 63);                  \
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

static void compress(uint64_t h[8], const uint8_t *block, uint64_t count, int last) {
    uint64_t m[16], v[16];
    memcpy(m, block, sizeof m);
    memcpy(v, h, 64);
    memcpy(v + 8, START, 64);
    v[12] ^= count;
    if (last) v[14] = ~v[14];
    ROUND(0);
    ROUND(1);
    ROUND(2);
    ROUND(3);
    ROUND(4);
    ROUND(5);
    ROUND(6);
    ROUND(7);
    ROUND(8);
    ROUND(9);
    ROUND(10);
    ROUND(11);
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
