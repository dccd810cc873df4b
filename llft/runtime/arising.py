"""A process that was restored from an image becomes a replica of its own, or a scratch process.

It has the memory of another process: its program, with every thread waiting, and its runtime, whose sockets,
names and native threads are not there. Of the runtime everything is made anew, in the places that the
program's threads know (`ReplicaProcess`, `Driver`, `Application`); the program does not notice. The caller
is the thread that took the image, under the driver's lock.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from llft import originals
from llft.past.checkpoint import Base
from llft.past.source import Interposed
from llft.runtime import own_log
from llft.runtime.native import image
from llft.runtime.state import running_loops
from llft.runtime.state.image_source import Carried
from llft.runtime.state.open_files import open_again
from llft.runtime.state.orders import Orders, read_orders
from llft.runtime.state.scratch import read_task
from llft.runtime.state.scratch_life import follow_image

if TYPE_CHECKING:
    from llft.runtime.replica_process import ReplicaProcess


def arise(process: ReplicaProcess, interposed: Interposed, carried: Carried) -> None:
    orders = read_orders()
    process.abandon()
    own_log.keep()
    try:
        image.forget_native_threads()
        running_loops.move(process.birth_id.pid, originals.getpid())
        open_again(carried.files)
        originals.chdir(carried.directory)
        originals.umask(carried.umask)
        interposed.remake(orders.temporary)
        if orders.task:
            follow_image(process.driver, read_task(orders.task))
        else:
            _live(process, orders, carried)
    except Exception:  # noqa: BLE001 (there is nobody else in this process to tell)
        own_log.write(traceback.format_exc())
        process.died("it could not go on from an image")


def _live(process: ReplicaProcess, orders: Orders, carried: Carried) -> None:
    birthplace = process.birthplace
    birthplace.environment.clear()
    birthplace.environment.update(orders.environment)
    birthplace.directory, birthplace.umask = orders.directory, orders.umask
    process.driver.application.begin_again(carried.position, carried.digest)
    process.be_born_again(orders.specification)
    process.checkpoints.begin_again(Base(*orders.base), orders.path)
    originals.start_new_thread(_start, (process,))


def _start(process: ReplicaProcess) -> None:
    """It waits for the driver's lock, which the caller of `arise` leaves now."""
    try:
        process.start()
    except Exception:  # noqa: BLE001 (a thread's failure would be nobody's)
        own_log.write(traceback.format_exc())
        process.died("it could not go on from an image")
