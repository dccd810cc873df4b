/* Heartbeats of one's own group in a dialogue. While messages come briskly they do not end it, for each end costs as
 * much as dozens of messages.
 *
 * At a backup the primary's are taken: when they came, for the fault detector, and what the newest says. All that a
 * Heartbeat says only grows, so nothing of the others is missing. At a primary, and where a beat is a copy that came
 * late (the pulse's), they are kept as they are, and looked at by the core, as if they had come later.
 *
 * Laws: a beat that wants something (an answer, a switch) does not wait; the first silence ends what waits, and so
 * does the moment at which the primary would be suspected. */

#include "dialogue.h"

#include <string.h>

enum {
    TYPE_AT = 1, /* as wire.header has it */
    GROUPS_AT = 4,
    HEARTBEAT = 6, /* as wire.messages has it */
    TO_GROUP = 0,
};

bool take_beat(const datagram_taken *taken, const dynamic_t *dynamic, int64_t now_ns) {
    fellow_t *f = &dialogue.fellow;
    if (dialogue.live || !is_brisk() || taken->channel != TO_GROUP || dynamic->flags || dynamic->order_length ||
        dynamic->reflected_length || dynamic->payload_length != BEAT_BYTES || taken->size != HEADER_BYTES + BEAT_BYTES)
        return false;
    memcpy(f->beat, taken->data + HEADER_BYTES, BEAT_BYTES);
    if ((int64_t)dynamic->watermark > f->beat_watermark)
        f->beat_watermark = (int64_t)dynamic->watermark;
    put_bytes(&f->beats, &now_ns, sizeof now_ns);
    dialogue.suspect_ns = now_ns + dialogue.suspect_after_ns;
    return true;
}

bool can_wait(const datagram_taken *taken) {
    uint32_t groups[2];
    uint16_t flags;
    if (!is_brisk() || taken->size < HEADER_BYTES || taken->data[TYPE_AT] != HEARTBEAT)
        return false;
    memcpy(groups, taken->data + GROUPS_AT, sizeof groups);
    memcpy(&flags, taken->data + PREFIX_BYTES, sizeof flags);
    return groups[0] == (uint32_t)dialogue.who[0] && groups[1] == groups[0] && (dialogue.live || !flags);
}

bool something_waits(void) { return PyList_GET_SIZE(dialogue.postponed) > 0 || dialogue.fellow.beats.size > 0; }
