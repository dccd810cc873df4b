"""The paper's evaluation from journals alone: see docs/JOURNAL_FIGURES.md.

trips        round trips as the client's end of a connection saw them: latency by size and by replicas
operations   what a server did between a request and its reply: the price of an operation
changes      elections, recoveries and detections, by replicas and clients
lag          how far backups are behind
figure       a table and a picture, or the reason why there is none
page         all of them
"""
