/* AES-128 and GHASH without the processor's instructions, and without tables or branches that depend on what is
 * secret. See gmac_parts.h. Little-endian machines only, as all are that the lane is compiled for. */

#include "gmac_parts.h"

#include <string.h>

/* -- eight elements of AES's field in a word --------------------------------------------------------- */

#define EACH(byte) ((byte) * UINT64_C(0x0101010101010101))

static uint64_t doubled(uint64_t each) {
    return (each & EACH(0x7f)) << 1 ^ (each >> 7 & EACH(1)) * 0x1b;
}

static uint64_t multiplied(uint64_t each, uint64_t by) {
    uint64_t sum = 0;
    for (int bit = 0; bit < 8; bit++, each = doubled(each)) sum ^= each & (by >> bit & EACH(1)) * 0xff;
    return sum;
}

/* To the power of 254; of 0 it is 0. */
static uint64_t inverted(uint64_t each) {
    uint64_t power = each;
    for (int bit = 1; bit < 7; bit++) power = multiplied(multiplied(power, power), each);
    return multiplied(power, power);
}

static uint64_t turned(uint64_t each, int bits) {
    return (each & EACH(0xffu >> bits)) << bits | (each >> (8 - bits) & EACH((1u << bits) - 1));
}

static uint64_t substituted(uint64_t each) {
    uint64_t one = inverted(each);
    return one ^ turned(one, 1) ^ turned(one, 2) ^ turned(one, 3) ^ turned(one, 4) ^ EACH(0x63);
}

/* -- AES-128 ------------------------------------------------------------------------------------------- */

enum { ROUNDS = 10 };

void portable_expand(uint8_t round_keys[GMAC_ROUND_KEYS], const uint8_t key[GMAC_TAG]) {
    uint64_t constant = 1;
    memcpy(round_keys, key, GMAC_TAG);
    for (uint8_t *at = round_keys + GMAC_TAG; at < round_keys + GMAC_ROUND_KEYS; at += 4) {
        uint32_t word, before;
        memcpy(&word, at - 4, 4);
        memcpy(&before, at - GMAC_TAG, 4);
        if ((at - round_keys) % GMAC_TAG == 0) {
            word = (uint32_t)substituted(word >> 8 | word << 24) ^ (uint32_t)constant;
            constant = doubled(constant);
        }
        word ^= before;
        memcpy(at, &word, 4);
    }
}

static void substitute(uint8_t state[GMAC_TAG]) {
    uint64_t halves[2];
    memcpy(halves, state, GMAC_TAG);
    for (int half = 0; half < 2; half++) halves[half] = substituted(halves[half]);
    memcpy(state, halves, GMAC_TAG);
}

static void shift_rows(uint8_t state[GMAC_TAG]) {
    uint8_t before[GMAC_TAG];
    memcpy(before, state, GMAC_TAG);
    for (int i = 0; i < GMAC_TAG; i++) state[i] = before[(i + 4 * (i % 4)) % GMAC_TAG];
}

static uint32_t turned_right(uint32_t word, int bits) { return word >> bits | word << (32 - bits); }

static void mix_columns(uint8_t state[GMAC_TAG]) {
    for (uint8_t *at = state; at < state + GMAC_TAG; at += 4) {
        uint32_t column, twice;
        memcpy(&column, at, 4);
        twice = (uint32_t)doubled(column);
        column = twice ^ turned_right(twice ^ column, 8) ^ turned_right(column, 16) ^ turned_right(column, 24);
        memcpy(at, &column, 4);
    }
}

void portable_encipher(const uint8_t round_keys[GMAC_ROUND_KEYS], uint8_t block[GMAC_TAG]) {
    for (int round = 0; round <= ROUNDS; round++) {
        if (round) {
            substitute(block);
            shift_rows(block);
        }
        if (round && round < ROUNDS) mix_columns(block);
        for (int i = 0; i < GMAC_TAG; i++) block[i] ^= round_keys[GMAC_TAG * round + i];
    }
}

/* -- GHASH --------------------------------------------------------------------------------------------- */

typedef unsigned __int128 wide;

/* Of polynomials. Of each number every fifth bit at a time: at most thirteen products meet in a place, and with four
 * places between one and the next no carry goes from one to another. */
static wide product(uint64_t one, uint64_t other) {
    const uint64_t fifth = UINT64_C(0x1084210842108421);
    const wide fifths = fifth | (wide)fifth << 65;
    wide sum = 0;
    for (int place = 0; place < 5; place++) {
        wide sums = 0;
        for (int i = 0; i < 5; i++) sums ^= (wide)(one & fifth << i) * (other & fifth << (place + 5 - i) % 5);
        sum |= sums & fifths << place;
    }
    return sum;
}

typedef struct {
    uint64_t low, high;
} element;

/* Divided by x^128. */
static element multiply(element one, element other) {
    const uint64_t modulus = UINT64_C(0xc2) << 56;
    wide middle = product(one.low, other.high) ^ product(one.high, other.low);
    wide low = product(one.low, other.low) ^ middle << 64, high = product(one.high, other.high) ^ middle >> 64;
    for (int half = 0; half < 2; half++) low = (low >> 64 | low << 64) ^ product((uint64_t)low, modulus);
    high ^= low;
    return (element){(uint64_t)high, (uint64_t)(high >> 64)};
}

static element read_block(const uint8_t block[GMAC_TAG]) {
    uint64_t high, low;
    memcpy(&high, block, 8);
    memcpy(&low, block + 8, 8);
    return (element){__builtin_bswap64(low), __builtin_bswap64(high)};
}

void portable_powers(uint64_t powers[GMAC_POWERS][2], const uint8_t hash_key[GMAC_TAG]) {
    element key = read_block(hash_key);
    uint64_t carry = 0 - (key.high >> 63);
    key.high = (key.high << 1 | key.low >> 63) ^ (carry & UINT64_C(0xc2) << 56);
    key.low = key.low << 1 ^ (carry & 1);
    element power = key;
    for (int at = GMAC_POWERS - 1; at >= 0; at--, power = multiply(power, key))
        powers[at][0] = power.low, powers[at][1] = power.high;
}

static element added(element sum, element block, element key) {
    return multiply((element){sum.low ^ block.low, sum.high ^ block.high}, key);
}

void portable_hash(const gmac_key *key, const uint8_t *data, size_t size, uint64_t first, uint64_t second,
                   uint8_t hash[GMAC_TAG]) {
    const uint64_t *power = key->powers[GMAC_POWERS - 1];
    element by = {power[0], power[1]}, sum = {0, 0};
    uint8_t rest[GMAC_TAG] = {0};
    for (; size >= GMAC_TAG; size -= GMAC_TAG, data += GMAC_TAG) sum = added(sum, read_block(data), by);
    if (size) {
        memcpy(rest, data, size);
        sum = added(sum, read_block(rest), by);
    }
    sum = added(sum, (element){second, first}, by);
    uint64_t words[2] = {__builtin_bswap64(sum.high), __builtin_bswap64(sum.low)};
    memcpy(hash, words, GMAC_TAG);
}
