"""What all these servers keep: amounts by name, and the whole history of what was asked.

A reply has the request's place in the order, and a digest of everything before it. So the state follows from
that order alone, and another run that is given the same requests in the same order must say the same.
"""

import hashlib
import threading


class Ledger:
    def __init__(self):
        self._lock = threading.Lock()
        self._balances = {}
        self._history = []
        self._digest = ""

    def add(self, who, number, amount):
        with self._lock:
            self._balances[who] = balance = self._balances.get(who, 0) + amount
            self._history.append([who, number, amount])
            text = f"{self._digest} {who} {number} {amount}"
            self._digest = hashlib.sha256(text.encode()).hexdigest()[:16]
            sequence = len(self._history)
            return {"sequence": sequence, "number": number, "balance": balance, "digest": self._digest}

    def load(self, dumped):
        with self._lock:
            self._balances, self._history = dumped["balances"], dumped["history"]
            self._digest = dumped["digest"]

    def dump(self):
        with self._lock:
            return {"balances": self._balances, "history": self._history, "digest": self._digest}
