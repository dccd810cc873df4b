"""The audit as a stream: alarms within seconds of a divergence, a second primary, a gap or a growing lag.

tail       what live segments have got, as a data source
usual      records as our writer spells them, by regular expression
slim       records -> what the watch needs, and no more
runs       that, packed: many deeds in one row
watcher    the judgement: one group's rows in, alarms out, with a state that is bounded
stream     both on Structured Streaming, with findings that are written exactly once
"""
