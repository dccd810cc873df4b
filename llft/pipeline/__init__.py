"""The data pipeline: journals of a fleet in, verdicts, figures and advice out. Runs on Spark.

    session     a Spark session with no set-up, on this machine or on a cluster
    daemon      what its Python workers are forked from, on this machine
    schema      the columns of a journal record, generated from `llft.journal.record`
    decode      live segments of one process -> rows, in order; what does not parse is set aside
    ingest      files of any host -> one DataFrame of records, one of what was quarantined

The only package that imports pyspark; `llft run` works without it.
"""
