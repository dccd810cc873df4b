"""An HTTP server whose whole state is a SQLite database: amounts by name, and the history of what was asked.

Arguments: the port, the directory of the database, and options: "close" if every reply ends its connection,
"wal" for a write-ahead log.
"""

import http.server
import json
import sqlite3
import sys
import threading
from pathlib import Path

LOCK = threading.Lock()
TABLES = """
    CREATE TABLE IF NOT EXISTS history (
        sequence INTEGER PRIMARY KEY, who TEXT, number INTEGER, amount INTEGER,
        moment TEXT DEFAULT CURRENT_TIMESTAMP, lot INTEGER DEFAULT (random())
    );
    CREATE TABLE IF NOT EXISTS balances (who TEXT PRIMARY KEY, balance INTEGER);
"""


def __llft_snapshot__():  # noqa: N807
    return b"all of it is in the data directory"


def __llft_restore__(state):  # noqa: N807
    pass


def add(who, number, amount):
    with LOCK, DATABASE:
        cursor = DATABASE.execute(
            "INSERT INTO history (who, number, amount) VALUES (?, ?, ?)", (who, number, amount)
        )
        DATABASE.execute(
            "INSERT INTO balances VALUES (?, ?) ON CONFLICT (who) DO UPDATE SET balance = balance + ?",
            (who, amount, amount),
        )
        ((balance,),) = DATABASE.execute("SELECT balance FROM balances WHERE who = ?", (who,))
        return {"sequence": cursor.lastrowid, "number": number, "balance": balance}


def dump():
    with LOCK:
        history = DATABASE.execute("SELECT who, number, amount FROM history ORDER BY sequence").fetchall()
        balances = DATABASE.execute("SELECT who, balance FROM balances ORDER BY who").fetchall()
    return {"history": history, "balances": balances}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer(add(*request))

    def do_GET(self):
        self.answer(dump())

    def answer(self, reply):
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        if "close" in sys.argv[3:]:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


if __name__ == "__main__":
    directory = Path(sys.argv[2])
    DATABASE = sqlite3.connect(directory / "history.db", check_same_thread=False)
    if "wal" in sys.argv[3:]:
        DATABASE.execute("PRAGMA journal_mode = wal")
    DATABASE.executescript(TABLES)
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
