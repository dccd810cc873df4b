"""The native parts: a thread that beats while the interpreter's lock is held (`pulse.c`), and one that knows
of a peer's death before its sockets do (`lifeline.c`).

`build` compiles them, `pulse` and `lifeline` are their Python sides. Without a C compiler a replica runs
without them, and says so.
"""
