"""Figure 9: the same key-value workload on LLFT and on what people would pick instead."""
