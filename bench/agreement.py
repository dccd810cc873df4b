"""Whether the audit and the simulator's checkers agree, seed by seed: on every profile and every planted bug.

    python bench/agreement.py --seeds 0:18 --output DIR

A campaign whose cells are all profiles without a bug and all planted bugs with the profile of each. Started
again with the same arguments it goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from llft.cli import reference_lane
from llft.cli.seed_work import replay_command, run_seed
from llft.cli.simulate import seed_range
from llft.pipeline.campaign.job import run_campaign
from llft.pipeline.campaign.outcome import Cell
from llft.pipeline.campaign.plan import Campaign, Directory
from llft.pipeline.campaign.summary import summarise
from llft.pipeline.session import spark_session
from llft.simulator.plants import PLANTS
from llft.simulator.profiles import PROFILES

CELLS = tuple(Cell(profile) for profile in PROFILES) + tuple(
    Cell(plant.profile, None, plant.name) for plant in PLANTS.values()
)


def main() -> int:
    parser = argparse.ArgumentParser(description="Whether audit and checkers agree.")
    parser.add_argument("--seeds", type=seed_range, default=range(18), metavar="A:B", help="of each cell")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    reference_lane.insist()
    campaign = Campaign(CELLS, arguments.seeds.start, arguments.seeds.stop, len(arguments.seeds))
    directory = Directory(arguments.output.resolve())
    begun_s = time.monotonic()
    with spark_session(master="local[2,4]") as spark:
        run_campaign(spark, run_seed, campaign, directory, tell=lambda done: None)
        summary = summarise(spark, campaign, directory, replay_command)
    for one in summary.disagreements:
        print(f"{one.explanation}: {one.replay}")
    clean = [one for one in summary.violations if one.cell.plant is None]
    for one in clean:
        print(f"violation without a planted bug: {one.property}: {one.replay}")
    found = {
        "cells": len(CELLS),
        "seeds": summary.seeds,
        "violations": summary.violation_count,
        "disagreements": summary.disagreement_count,
        "seconds": round(time.monotonic() - begun_s, 1),
    }
    print(json.dumps(found))
    return 1 if summary.disagreement_count or clean else 0


if __name__ == "__main__":
    sys.exit(main())
