"""The supervisor of `llft run`: starts replicas and gateway, restarts what dies, and leaves nothing behind.

    supervisor       the loop: one thread, one selector
    founding         who founds the group, and when again
    listening        the gateway listens where the program does
    slot             a place for a replica or gateway: its process lives, its back-off, what it last said
    run_directory    where everything about a group on this host lies; one supervisor at a time holds it
    program          the user's command -> which interpreter, which program
    metrics          Prometheus text, and the port that serves it
    port_holder      who holds a TCP port that we cannot have

It takes no part in the protocols: if it dies, its children end with it, and while it lives it only starts,
asks and ends processes. No decision about the group's state is its own, except one: a group all of whose
members are dead is started anew, and everybody is told.
"""
