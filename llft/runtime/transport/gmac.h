/* The faster of the two MACs of datagrams (D-15), which llft/runtime/transport/gmac.py says: AES-GMAC (NIST SP
 * 800-38D) with the envelope's header for its number, enciphered once more under another key. By the processor's
 * instructions where it has them; else slowly, without tables, so that how long it takes tells nothing of the key. */

#ifndef LLFT_GMAC_H
#define LLFT_GMAC_H

#include <stddef.h>
#include <stdint.h>

enum { GMAC_TAG = 16, GMAC_KEYS = 32, GMAC_ROUND_KEYS = 176, GMAC_POWERS = 32 };

typedef struct {
    uint8_t round_keys[GMAC_ROUND_KEYS];     /* of GMAC */
    uint8_t tag_round_keys[GMAC_ROUND_KEYS]; /* of what its tags are enciphered with */
    uint64_t powers[GMAC_POWERS][2];         /* of the hash key, the highest first, as `gmac_parts.h` has them */
    int by;
} gmac_key;

/* How it is done: without instructions, by some for a block, by some for four. */
enum { GMAC_PORTABLE, GMAC_FAST, GMAC_WIDE };

/* Of these the most that this processor can. */
int gmac_best(void);

/* `keys`: that of GMAC, and that of its tags. It is done by `most`, or less if the processor can do no more. */
void gmac_prepare(gmac_key *prepared, const uint8_t keys[GMAC_KEYS], int most);

/* GMAC as the standard has it. */
void gmac(const gmac_key *prepared, const uint8_t *number, size_t number_size, const uint8_t *data, size_t size,
          uint8_t tag[GMAC_TAG]);

/* The MAC of a datagram, which begins with its number. */
void gmac_mac(const gmac_key *prepared, const uint8_t *data, size_t size, size_t number_size,
              uint8_t mac[GMAC_TAG]);

#endif
