"""The audit: the paper's safety theorems, and what else must hold, judged on the journals of a fleet.

    findings     what a finding is
    lives        what one process did from joining its group to its end, as far as rare records tell
    branches     which views are of the surviving branch, and from which number on a life is not
    prints       fingerprints: what lives did, summed up by 4096 order numbers
    suspects     where the fingerprints of lives differ
    outline      rare records and prints -> lives with their limits, findings, and what is suspected
    agreement    the central check: all replicas performed, sent and read the same (Theorem 2, digests, clock)
    clock        the group clock never goes back
    delivery     exactly once, in order, what was written: per connection and direction
    excuses      connections on which a pruned branch is to blame, and nobody is left wrong
    watermark    nothing is collected before all had it
    losses       what a pruned branch, or a primary that nobody heard, did for nothing
    checks       all of them, by name
    whole        whole worlds, as who judges them where they came into being takes them
    worlds       whole worlds: of which nothing can be found, and what is found at once
    sameness     of whole worlds: `agreement` and `clock`
    clearing     of whole worlds: `delivery` and `watermark`
    pardons      of whole worlds: `excuses`
    doubtful     of whole worlds that were not cleared: `checks`

Rows are judged where they lie: what is frequent is aggregated into fingerprints before anything is moved,
and only what does not agree is looked at row by row. Rare records go to plain Python, a group at a time.
"""
