/* See gmac.h. */

#include "gmac_parts.h"

#include <string.h>

enum { PLAIN_NUMBER = 12 }; /* of so many bytes it is taken as it is, with a count behind it */

void gmac_prepare(gmac_key *prepared, const uint8_t keys[GMAC_KEYS], int most) {
    uint8_t hash_key[GMAC_TAG] = {0};
    portable_expand(prepared->round_keys, keys);
    portable_expand(prepared->tag_round_keys, keys + GMAC_TAG);
    portable_encipher(prepared->round_keys, hash_key);
    portable_powers(prepared->powers, hash_key);
    prepared->by = most < gmac_best() ? most : gmac_best();
}

static void hash(const gmac_key *key, const uint8_t *data, size_t size, uint64_t first, uint64_t second,
                 uint8_t found[GMAC_TAG]) {
    (key->by == GMAC_PORTABLE ? portable_hash : fast_hash)(key, data, size, first, second, found);
}

static void encipher(const gmac_key *key, const uint8_t round_keys[GMAC_ROUND_KEYS], uint8_t block[GMAC_TAG]) {
    (key->by == GMAC_PORTABLE ? portable_encipher : fast_encipher)(round_keys, block);
}

void gmac(const gmac_key *prepared, const uint8_t *number, size_t number_size, const uint8_t *data, size_t size,
          uint8_t tag[GMAC_TAG]) {
    uint8_t mask[GMAC_TAG] = {[GMAC_TAG - 1] = 1};
    if (number_size == PLAIN_NUMBER)
        memcpy(mask, number, PLAIN_NUMBER);
    else
        hash(prepared, number, number_size, 0, 8 * (uint64_t)number_size, mask);
    encipher(prepared, prepared->round_keys, mask);
    hash(prepared, data, size, 8 * (uint64_t)size, 0, tag);
    for (int i = 0; i < GMAC_TAG; i++) tag[i] ^= mask[i];
}

void gmac_mac(const gmac_key *prepared, const uint8_t *data, size_t size, size_t number_size,
              uint8_t mac[GMAC_TAG]) {
    gmac(prepared, data, number_size, data, size, mac);
    encipher(prepared, prepared->tag_round_keys, mac);
}
