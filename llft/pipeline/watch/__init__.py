"""The audit as a stream: alarms within seconds of a divergence, a second primary, a gap or a growing lag.

tail       live segments -> slim rows: what the watch needs, and no more
watcher    the judgement: one group's rows in, alarms out, with a state that is bounded
stream     both on Structured Streaming, with findings that are written exactly once
"""
