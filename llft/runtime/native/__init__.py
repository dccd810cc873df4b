"""The one native part: a thread that beats while the interpreter's lock is held (`pulse.c`).

`build` compiles it, `pulse` is its Python side. Without a C compiler a replica runs without it, and says so.
"""
