/* Acknowledgments of a dialogue of a primary's that is slow to answer.
 *
 * What is received is acknowledged by the answer. Where many connections wait for their turn, or an answer takes its
 * time, the FirstAck comes due, which is the core's, and so is the SecondAck that answers it: the dialogue would end
 * for it with every other request. So it says once by a KeepAlive what it has received: that stops the sender from
 * saying it again as well (D-44), wants no answer, and is taken in a dialogue at the other end, too. The FirstAck is
 * due as much later as after a FirstAck, if there is no answer by then either. Should the KeepAlive be lost, the
 * message is said again, as if a FirstAck had been.
 *
 * Laws: no more than one for what came last; it carries the order information that any message has to carry, or it is
 * left to the core. */

#include "dialogue.h"

static void tell_ack(connection_t *c, int64_t now_ns) {
    if (multicast_keep_alive(c) < 0)
        Py_FatalError("the network cannot be written");
    c->used = c->has_told_ack = true;
    c->ack_due_ns = now_ns + 2 * dialogue.retransmit_interval_ns;
}

void tell_acks(int64_t now_ns) {
    for (int at = 0; dialogue.live && !dialogue.is_relay && at < dialogue.connection_count; at++) {
        connection_t *c = &dialogue.connections[at];
        if (c->ack_due_ns <= now_ns && !c->has_told_ack && may_leave())
            tell_ack(c, now_ns);
    }
}
