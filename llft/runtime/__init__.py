"""The shell round the core: real datagrams, real clocks, real processes (docs/RUNTIME.md).

What runs inside a replica process (transport, liveness, driver) shares an interpreter with the program, whose
modules are patched: it uses the C modules through `llft.originals`, and nothing that imports `socket` or
`threading`.
"""
