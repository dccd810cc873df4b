"""What a program said last, seen out after its end.

A reply that was sent is not delivered yet: the remote group has to get it, and a gateway gives it to its
client only when it hears that backups hold its order (D-10). Both need a primary that goes on for a moment. A
backup stays as long as it may, for a primary that fails meanwhile leaves the last words to it; normally the
primary's end is the end of its supervisor's run, and of the backup.
"""

from __future__ import annotations

from llft import originals
from llft.instant import MS
from llft.runtime.driver import Driver

BOUND_NS = 2_000 * MS
KEEP_ALIVES = 5
"""For so many intervals after the last acknowledgment gateways are told what is committed."""
_STEP_S = 0.002


def see_out(driver: Driver) -> None:
    """Called by the program's main thread, which is out. Within a bound."""
    calm_ns = KEEP_ALIVES * driver.core.config.timeouts.keep_alive_interval_ns
    now_ns = busy_ns = originals.monotonic_ns()
    until_ns = now_ns + BOUND_NS
    while now_ns < min(until_ns, busy_ns + calm_ns):
        originals.sleep(_STEP_S)
        now_ns = originals.monotonic_ns()
        with driver.lock:
            driver.work()
            if _is_needed(driver):
                busy_ns = now_ns


def _is_needed(driver: Driver) -> bool:
    core = driver.core
    return not core.live or any(connection.sent for connection in core.messaging.table)
