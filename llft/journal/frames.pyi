from llft.journal.batch import Batch

def encode(batches: list[Batch]) -> bytes | None:
    """The frames of all their records, one behind the other; None if something in them is for Python."""
