"""Simulation campaigns as a Spark job: seeds to executors, journals to Parquet, judged by the audit.

    outcome     what one seed comes to, and its row (`columns`)
    plan        profiles and replicas, seeds, batches; what is done already
    isolation   a seed that may take its process down
    work        one batch, in an executor
    job         the driver's part: distribute, watch, judge, compare
    sums        what outcomes add up to
    summary     the tables

The package knows no simulator: whoever starts a campaign says how a seed is run (`outcome.RunSeed`).
"""
