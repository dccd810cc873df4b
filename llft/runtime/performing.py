"""What is done for each of the core's effects, in a real process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from llft.core import effects
from llft.runtime.state import exchange

if TYPE_CHECKING:
    from llft.runtime.driver import Driver


def performers(driver: Driver) -> dict[type, Callable[[Any], None]]:
    application, network, world = driver.application, driver.network, driver.world

    def write(effect: effects.WriteRecord) -> None:
        driver.written = True
        if (batch := effect.batch()) is None:
            world.write(effect.record)
        else:
            world.write_batch(batch)

    def write_batch(effect: effects.WriteBatch) -> None:
        driver.written = True
        world.write_batch(effect)

    return {
        effects.Multicast: lambda effect: network.multicast(effect.group_id, effect.data),
        effects.Transmit: lambda effect: network.transmit(effect.birth_id, effect.data),
        effects.WriteRecord: write,
        effects.WriteBatch: write_batch,
        effects.ResumeThread: lambda effect: application.give(effect.thread, effect.result),
        effects.StartApplication: lambda effect: application.start(1, ""),
        effects.StartThread: lambda effect: application.start(effect.thread, str(effect.argument)),
        effects.RepeatCall: lambda effect: driver.resumed.repeat(effect.thread),
        effects.CaptureState: lambda effect: driver.wish(exchange.captured(driver, effect)),
        effects.StoreState: lambda effect: exchange.store(driver, effect.state),
        effects.RestoreState: lambda effect: exchange.restore(driver, effect.state),
        effects.ResetApplication: lambda effect: world.reborn("", effect.withdrawn),
        effects.Stop: lambda effect: world.stopped(effect.reason),
    }
