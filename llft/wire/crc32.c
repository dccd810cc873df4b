/* See crc32.h. TABLES[k][b]: what byte b becomes when k more bytes have gone by. */

#include "crc32.h"

#include <string.h>

static uint32_t TABLES[8][256];

void crc32_begin(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t word = byte;
        for (int bit = 0; bit < 8; bit++) word = word >> 1 ^ (word & 1 ? 0xedb88320u : 0);
        TABLES[0][byte] = word;
    }
    for (int k = 1; k < 8; k++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t before = TABLES[k - 1][byte];
            TABLES[k][byte] = before >> 8 ^ TABLES[0][before & 255];
        }
}

uint32_t crc32_over(uint32_t crc, const uint8_t *data, size_t size) {
    for (; size >= 8; size -= 8, data += 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        word ^= crc;
        crc = 0;
        for (int k = 0; k < 8; k++) crc ^= TABLES[7 - k][word >> (8 * k) & 255];
    }
    while (size--) crc = crc >> 8 ^ TABLES[0][(crc ^ *data++) & 255];
    return crc;
}

uint32_t crc32_of(const uint8_t *data, size_t size) { return ~crc32_over(0xffffffffu, data, size); }
