"""Seeds per second of a campaign on Spark, against two plain processes on the same seeds.

    python bench/campaign.py --seeds 0:400

Of the campaign both are told: simulating alone (with the journals written), and with the audit's judging.
Starting Spark is not counted; the first import of a worker is. The plain processes run before and behind it,
and the faster of the two counts: other work on the machine makes neither look better than it is.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from typing import Any

LLFT = [sys.executable, "-m", "llft.cli.main"]


def last_line(*arguments: str) -> dict[str, Any]:
    done = subprocess.run([*LLFT, *arguments, "--json"], check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def plain_rate_of(seeds: str) -> float:
    plain = last_line("simulate", "--seeds", seeds, "--jobs", "2")
    return float(plain["seeds"] / plain["seconds"])


def main() -> int:
    parser = argparse.ArgumentParser(description="A campaign against two plain processes.")
    parser.add_argument("--seeds", default="0:64", metavar="A:B", help="default: 0:64")
    seeds = parser.parse_args().seeds
    plain_rates = [plain_rate_of(seeds)]
    with tempfile.TemporaryDirectory() as output:
        where = ["--master", "local[2,4]", "--output", output]
        spark = last_line("campaign", "--seeds", seeds, *where)
    plain_rates.append(plain_rate_of(seeds))
    plain_rate = max(plain_rates)
    simulating_rate = spark["seeds"] / spark["simulating_s"]
    judged_rate = spark["seeds"] / (spark["simulating_s"] + spark["judging_s"])
    before, behind = plain_rates
    print(f"two plain processes: {before:.2f} seeds/s before, {behind:.2f} behind")
    print(f"campaign, simulating: {simulating_rate:.2f} seeds/s, {simulating_rate / plain_rate:.1%}")
    print(f"campaign, with judging: {judged_rate:.2f} seeds/s, {judged_rate / plain_rate:.1%}")
    print(f"{spark['violations']} violations, {spark['disagreements']} disagreements")
    return 1 if spark["violations"] or spark["disagreements"] else 0


if __name__ == "__main__":
    sys.exit(main())
