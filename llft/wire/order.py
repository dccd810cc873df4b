"""Order entries and their coding as one byte stream per group (D-04).

In memory an entry is a plain tuple whose first item says its kind; `pick` is the number of
the scheduling decision under which it was made (token mode, D-16; 0 in ordered mode):

    (READ,  pick, thread, fd, size)                  message order: `size` bytes taken (D-03)
    (SEND,  pick, thread, fd, timestamp, digest)     message order: one message sent (line 8)
    (MUTEX, pick, thread, mutex, count, result)      claim, trylock or release
    (TIME,  pick, thread, clock_id, value_ns)        a clock reading
    (SOCKET, pick, thread, fd, count, data)          accept, connect, select, failed calls
    (GENERAL, pick, thread, operation, count, data)  the paper's (T, O, N, D)
    (WAKE,  pick, thread)                            token: a blocked thread became runnable
    (PRIMARY_VIEW, view, view_bases)                 view: ViewId, view_bases: ((fd, base), ...)
    (REMOTE_VIEW, fd, view, position)                messages from `position` on came in `view`
"""
