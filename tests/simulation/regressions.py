"""Seeds that once found something. They are run for ever; none is removed.

A seed draws its world from the code as it is, so a change of the simulator may make an old entry harmless;
it costs a second and stays all the same. What was found becomes a script of its own as well, where it can
be told in a few steps.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Regression(NamedTuple):
    profile: str
    seed: int
    options: dict[str, Any]
    """Of SimulationOptions, other than the profile."""
    found: str


REGRESSIONS: list[Regression] = [
    Regression("default", 0, {}, "buffers: messages stayed in the sent lists of a server at rest"),
    Regression("default", 2, {}, "exactly_once: messages of a server were missing from its journals"),
    Regression("default", 3, {}, "resets: a connection was reset though no fault explained it"),
    Regression("default", 4, {}, "buffers: messages stayed in the received lists of a client's backups"),
    Regression("default", 27, {}, "virtual_synchrony: a semi-passive backup counted its log, not its work"),
    Regression("default", 126, {}, "buffers: a Reply on a connection that is over got no answer"),
    Regression("default", 139, {}, "buffers: a reset connection asked for messages"),
    Regression("default", 232, {}, "resets: a message that came after the close was missed by a new primary"),
    Regression("default", 268, {}, "theorem3: a state of a view that ended was applied in the next one"),
    Regression(
        "default", 328, {}, "buffers: backups kept a connection that was given up before it was accepted"
    ),
    Regression("default", 367, {}, "buffers: a semi-passive backup did not know which connections were over"),
    Regression(
        "default", 805, {}, "progress: a successor read at once where the checkpoint had a parked thread"
    ),
    Regression("default", 1315, {}, "buffers: order information was held though all connections were reset"),
    Regression("default", 1419, {}, "exactly_once: two pruned branches, of which one wrote an end only"),
    Regression("default", 2669, {}, "buffers: a reset connection, closed in recovery, was not forgotten"),
    Regression("default", 1487, {}, "buffers: a state update dropped a message that another backup missed"),
    Regression("crash", 2, {}, "theorem2: a new primary operated before its view change entry"),
    Regression("crash", 9, {}, "resets: order information of the first view was taken for void"),
    Regression("loss", 3, {}, "replies: a primary forgot a connection that its backup still had to read"),
    Regression("loss", 7, {}, "exactly_once: fragments of two views made one message"),
    Regression("loss", 14, {}, "resets: recovery did not ask again on a connection whose question was lost"),
    Regression(
        "loss", 148, {}, "replies: a connection that a new primary learnt of in recovery was not asked about"
    ),
    Regression(
        "loss",
        484,
        {},
        "progress: the last member took bytes of a view without its start, and left",
    ),
    Regression("crash", 50, {}, "resets: a dropped message was reported under the view before its own"),
    Regression(
        "reorder",
        23,
        {},
        "replies: a remote group told what it held, and then took more on another connection",
    ),
    Regression(
        "double-crash",
        94,
        {},
        "replies: a backup dropped its own group's bytes with a view not agreed with",
    ),
    Regression(
        "double-crash", 157, {}, "replies: fresh order information waited behind what all members had"
    ),
    Regression("double-crash", 246, {}, "replies: as double-crash 94"),
    Regression("double-crash", 477, {}, "replies: as double-crash 157"),
    Regression("slow", 83, {}, "resets: as crash 50, semi-active"),
    Regression("corruption", 2, {}, "exactly_once: the lane accepted what the decoder refuses"),
    Regression("partition", 3, {}, "progress: two primaries had each agreed with another one"),
    Regression("partition", 14, {}, "progress: a pruned branch had what the surviving one lacked"),
    Regression("partition", 55, {}, "replies: a client agreed with a branch that lacked what it had read"),
    Regression("default", 727, {}, "buffers: what a closed connection skipped was never collected"),
    Regression(
        "partition",
        143,
        {},
        "progress: two branches had sent as many messages, and different ones; exactly_once: a new primary "
        "repeated a read of one branch's bytes with the other's",
    ),
    Regression("loss", 847, {}, "resets: a long answer had a nonce where others have their Lamport time"),
    Regression("join-storm", 131, {}, "progress: a joiner waited for the rest of a state that was another's"),
    Regression("loss", 83, {}, "resets: that a primary was superseded while it lived explained nothing"),
    Regression("partition", 172, {}, "exactly_once: more was delivered than the remote group ever sent"),
    Regression("partition", 457, {}, "replies: as partition 172"),
    Regression("partition", 117, {}, "buffers: a backup was not told that its primary refused a connection"),
    Regression("partition", 332, {}, "replies: as partition 55"),
    Regression("churn", 19, {}, "resets: a server refused a connection whose CONNECT it had not seen"),
    Regression("partition-majority", 4, {}, "progress: nobody removed a member that had reset itself"),
    Regression("partition-majority", 35, {}, "progress: a proposer did not hear that it was removed"),
    Regression("partition-majority", 60, {}, "progress: a backup was bound by a proposal that was given up"),
    Regression("partition-majority", 464, {}, "buffers: as partition 117, at four backups"),
    Regression("lost-client", 19, {}, "progress: what a remote group had flushed was not sent again"),
    Regression("lost-client-level1", 9, {}, "exactly_once: a message was with a backup, and nobody asked it"),
    Regression("lost-client-level1", 82, {}, "progress: a new primary sent nothing of a history cut short"),
    Regression(
        "lost-client-level1",
        464,
        {},
        "replies: a new primary asked its members for some fragments, of its own cut",
    ),
    Regression("lost-client-level1", 540, {}, "replies: a commit that a backup told itself spread no order"),
    Regression("commit", 30, {}, "crash: a gateway heard a damaged word of a backup that it holds"),
    Regression("lost-client-level1", 115, {}, "resets: what was done without a backup was held against it"),
    Regression(
        "restart",
        0,
        {},
        "crash: who joined a restarted group began threads that were to make their calls once more",
    ),
    Regression(
        "restart",
        26,
        {},
        "past: who joined from birth lost its log to the first two checkpoints",
    ),
    Regression(
        "join-storm",
        269,
        {},
        "resets: a new primary missed what a closed connection had skipped, and asked before it was settled",
    ),
    Regression(
        "join-storm",
        484,
        {},
        "past: a joiner was promoted that was still fetching its program's past, and gave out an empty one",
    ),
    Regression(
        "default",
        11168,
        {},
        "crash: a replica that reset within a step gave its program what it had performed before",
    ),
    Regression(
        "default",
        16123,
        {},
        "resets: a new primary missed a message of a view whose new primary waited for its agreement",
    ),
    Regression(
        "default",
        7218,
        {},
        "replies: two groups that recovered together dropped each other's Nacks, for their views were new",
    ),
    Regression(
        "default",
        19965,
        {},
        "exactly_once: a recovery that was given message after message was over before it had all of them",
    ),
]
