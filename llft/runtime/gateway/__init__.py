"""The gateway (D-19): a group of one member that holds the real TCP connections.

    loop        epoll and alarms: the one thing that waits
    shell       the core, its transport and journal; virtual threads as generators
    stream      one real TCP connection, with its buffer
    relay       what the two virtual threads of a connection do
    listeners   the addresses on which outside clients are accepted
    control     the control socket
    gateway     all of it together

Nothing here is interposed, and nothing here is replicated: a gateway that dies takes its TCP connections
with it, and a restarted one is a new group.
"""
