"""From rounds to points: what is kept, what is refused, and what is said of a machine that was not quiet."""

from __future__ import annotations

import json
import os
import resource
import time
from pathlib import Path
from typing import Any

import pytest

from llft.cli.group_run import TrialFailure
from llft.cli.main import build_parser
from llft.cli.measure import nondeterminism, placement, side
from llft.cli.measure.catalogue import FIGURES, LISTS, default_arguments
from llft.cli.measure.disturbance import Disturbance, Glance, between, cpu_s
from llft.cli.measure.drawing import draw, pictures
from llft.cli.measure.everything import failover_point
from llft.cli.measure.memory import allow_descriptors, growth_of
from llft.cli.measure.network import Network, network
from llft.cli.measure.page import COLUMNS, section, table
from llft.cli.measure.perform import MEASURES, collected, object_of, spins_of
from llft.cli.measure.points import Round, Sample, point_of, slope
from llft.cli.measure.running import Processes
from llft.cli.measure.throughput import better_of
from llft.cli.stolen import read_ticks
from llft.errors import MisuseError

QUIET, NOISY = Disturbance(0.0, 0.0), Disturbance(0.0, 0.5)


def round_of(
    tcp_us: float, llft_us: float, disturbance: Disturbance = QUIET, *, changed: bool = False
) -> Round:
    each = tuple(float(number) for number in range(1, 101))
    return Round(Sample(tcp_us, each, 5.0), Sample(llft_us, each, 10.0, 1.0), disturbance, changed)


# -- points ---------------------------------------------------------------------------------------------


def test_a_point_is_medians_and_its_spread_is_of_ratios() -> None:
    point = point_of([round_of(10, 20), round_of(20, 44), round_of(10, 24)])
    assert (point["tcp_us"], point["llft_us"], point["ratio"], point["spread"]) == (10, 24, 2.2, 0.4)
    assert (point["tcp_p99_us"], point["rounds"], point["disturbed"], point["trusted"]) == (99.0, 3, 0, True)
    assert (point["llft_cpu_us"], point["backup_cpu_us"], point["gateway_cpu_us"]) == (10.0, 1.0, None)


def test_disturbed_rounds_do_not_count_while_there_are_others() -> None:
    point = point_of([round_of(10, 900, NOISY), round_of(10, 20), round_of(10, 700, changed=True)])
    assert (point["ratio"], point["rounds"], point["disturbed"], point["trusted"]) == (2.0, 1, 2, True)
    assert point["spread"] is None


def test_a_machine_that_was_never_quiet_shows() -> None:
    point = point_of([round_of(10, 20, NOISY), round_of(10, 40, NOISY)])
    assert (point["ratio"], point["disturbed"], point["trusted"]) == (3.0, 2, False)


def test_no_rounds_are_no_point() -> None:
    with pytest.raises(MisuseError):
        point_of([])


def test_a_slope_is_of_the_line_that_fits() -> None:
    assert slope([0, 10, 20], [5, 7, 9]) == pytest.approx(0.2)
    with pytest.raises(MisuseError):
        slope([5, 5], [1, 2])


def test_the_price_of_an_operation_is_above_the_native_one() -> None:
    points = [{"count": count, "tcp_us": 10 + count, "llft_us": 20 + 4 * count} for count in (0, 50)]
    assert nondeterminism.slopes_of(points) == {"tcp_slope_us": 1.0, "llft_slope_us": 4.0, "slope_us": 3.0}


def test_throughput_takes_the_better_server_of_each_side() -> None:
    threads, select = point_of([round_of(10, 40)]), point_of([round_of(20, 25)])
    found = better_of({"threads": threads, "select": select})
    assert (found["tcp_server"], found["llft_server"]) == ("threads", "select")
    assert (found["tcp_rps"], found["llft_rps"], found["ratio"]) == (100_000, 40_000, 0.4)


def test_memory_grows_by_the_thousand() -> None:
    names = ("tcp_mb", "primary_mb", "backup_mb", "gateway_mb")
    points = [{"connections": count, **dict.fromkeys(names, 10 + count / 100)} for count in (0, 500)]
    assert growth_of(points)["primary_mb_per_1000"] == pytest.approx(10.0)
    assert growth_of(points[:1]) == {}


def test_more_connections_than_descriptors_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (64, 64))
    with pytest.raises(MisuseError):
        allow_descriptors(65)


# -- disturbance ----------------------------------------------------------------------------------------


def test_time_of_others_is_what_is_not_ours() -> None:
    before, after = Glance(0.0, 0.0, 0.0, 0.0), Glance(1.0, 1.0, 0.1, 0.4)
    found = between(before, after, core_count=2)
    assert (found.foreign, found.stolen) == (pytest.approx(0.3), pytest.approx(0.05))
    assert found.is_too_much
    assert not between(before, Glance(1.0, 0.5, 0.0, 0.5), core_count=2).is_too_much


def test_ticks_are_read_without_waiting_and_idle_ones() -> None:
    per_second = os.sysconf("SC_CLK_TCK")
    busy_s, stolen_s = read_ticks("cpu 1 2 3 1000 2000 4 5 6 7 8\ncpu0 9 9 9\n")
    assert (busy_s * per_second, stolen_s * per_second) == (pytest.approx(15), pytest.approx(6))
    assert read_ticks("cpu 1 2 3 4\n")[1] == 0.0


def test_processor_time_of_another_process() -> None:
    assert cpu_s(os.getpid()) == pytest.approx(time.process_time(), abs=0.5)
    assert cpu_s(2**22 + 5) == 0.0


# -- placement and counts -------------------------------------------------------------------------------


def test_both_sides_are_placed_alike_and_backups_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    placed: dict[int, set[int]] = {}
    monkeypatch.setattr(placement, "cores", lambda: (3, 5))
    monkeypatch.setattr(placement, "pin", lambda pids, to: placed.update({pid: set(to) for pid in pids}))
    client, server = Processes((1,)), Processes((2,), (20, 21), (22,))
    placement.place(client, server, "one-core")
    assert placed == {1: {3}, 2: {3}, 20: {5}, 21: {5}, 22: {5}}
    placement.place(client, server, "one-core", backups="same")
    assert placed[20] == {3}
    placement.place(client, server, "two-cores")
    assert placed == {1: {3}, 2: {5}, 20: {3, 5}, 21: {3, 5}, 22: {3, 5}}


def test_a_cable_has_settings_of_its_own() -> None:
    with network("loopback", configured=True) as found:
        assert found == Network()
    with pytest.raises(MisuseError), network("veth", configured=True):
        pass


def test_two_cores_are_refused_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "cores", lambda: (0,))
    with pytest.raises(MisuseError):
        placement.place(Processes((1,)), Processes((2,)), "two-cores")


@pytest.mark.parametrize(("seconds", "us", "count"), [(0.2, 20.0, 10_000), (0.2, 1e6, 8), (9.0, 1.0, 50_000)])
def test_a_round_is_neither_too_short_nor_too_long(seconds: float, us: float, count: int) -> None:
    assert side.count_for(seconds, us) == count


# -- the command line -----------------------------------------------------------------------------------


def test_each_figure_can_be_asked_for_and_shown() -> None:
    assert set(MEASURES) == set(FIGURES) <= set(COLUMNS)
    for name, figure in FIGURES.items():
        parsed = vars(build_parser().parse_args(["bench", name]))
        defaults = vars(default_arguments(figure))
        assert {key: parsed[key] for key in defaults} == defaults


@pytest.mark.parametrize(
    ("name", "text"),
    [("sizes", "0"), ("sizes", "64,x"), ("sizes", "99999999999"), ("replicas", "10"), ("counts", "-1"),
     ("operations", "clock,sundial"), ("applications", "nginx")],
)  # fmt: skip
def test_nonsense_is_refused(name: str, text: str) -> None:
    with pytest.raises(Exception, match=r"is not|is none of"):
        LISTS[name][0](text)


def test_a_failure_keeps_the_points_before_it() -> None:
    def measured() -> Any:
        yield {"size": 1}
        raise TrialFailure("client-failed", "a reply was wrong")

    found = object_of("latency", measured())
    assert found["points"] == [{"size": 1}]
    assert not found["passed"]
    assert "a reply was wrong" in found["failure"]
    assert collected(iter([{"size": 2}])) == ([{"size": 2}], "")


# -- pictures and pages ---------------------------------------------------------------------------------


def latency_points() -> list[dict[str, Any]]:
    own = {"replicas": 3, "client_replicas": 1, "lane": "compiled"}
    return [
        {**own, "placement": where, "size": size, **point_of([round_of(size, 2 * size, noise)])}
        for where, noise in (("one-core", QUIET), ("two-cores", NOISY))
        for size in (64, 1024)
    ]


def test_a_picture_for_each_placement(tmp_path: Path) -> None:
    assert draw("latency", latency_points(), tmp_path) == ["latency-one-core.svg", "latency-two-cores.svg"]
    drawn = (tmp_path / "latency-one-core.svg").read_text()
    assert "LLFT, client 1, server 3" in drawn
    assert drawn.count("<polyline") == 2
    assert pictures("apps", latency_points()) == {}


def test_two_lanes_are_two_lines_and_a_column(tmp_path: Path) -> None:
    points = [point for point in latency_points() if point["placement"] == "one-core"]
    both = [*points, *({**point, "lane": "reference"} for point in points)]
    assert pictures("latency", both)["latency-one-core.svg"].count("<polyline") == 3
    assert "| lane | placement |" in section(object_of("latency", both), [])


def test_with_and_without_looking_are_two_lines(tmp_path: Path) -> None:
    points = [point for point in latency_points() if point["placement"] == "one-core"]
    both = [{**point, "spin": spin} for spin in (60, 0) for point in points]
    assert pictures("latency", both)["latency-one-core.svg"].count("<polyline") == 3
    assert pictures("latency", both[: len(points)])["latency-one-core.svg"].count("<polyline") == 2


def test_how_long_groups_look_is_asked_for_or_configured_or_both_ways() -> None:
    def spins(*words: str) -> list[int]:
        return [*spins_of(build_parser().parse_args(["bench", *words]))]

    assert spins("latency") == [60, 0]
    assert spins("latency", "--spin", "0") == [0]
    assert spins("latency", "--config", "llft.toml") == spins("throughput") == spins("apps") == [60]


def test_a_section_has_the_command_and_stars_what_was_disturbed() -> None:
    found = object_of("latency", latency_points())
    text = section(found, ["latency-one-core.svg"])
    assert "    llft bench latency\n" in text
    assert "(figures/latency-one-core.svg)" in text
    assert text.count(" * |") == 2
    assert table([{"us": 12345.678}], ["us"])[-1] == "| 12346 |"


def test_a_failover_is_a_point() -> None:
    percentile = {"p50": 4.0, "p99": 9.0, "max": 9.0}
    verdict = {"replicas": 2, "clients": 4, "kills": 10, "lost": 0, "failover_ms": percentile}
    point = failover_point({**verdict, "stages_ms": {"detection": percentile}})
    assert (point["p50_ms"], point["p99_ms"], point["detection_ms"]) == (4.0, 9.0, 4.0)
    assert json.dumps(point)
