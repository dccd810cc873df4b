"""What clients saw, held against a sequential model in the group's order: linearizability without search.

models      objects as sequential specifications
witness     the group's order as the witness: replay, and real-time order
search      where the witness fails: is there any other order? (Wing and Gong, with Lowe's memory)
judge       the calls of one object -> findings
"""
