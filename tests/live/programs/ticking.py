"""Interval timers: how often they rang is told to whoever asks. It ends by os._exit when told to."""

import os
import signal
import socket
import sys
import time

heard = []
signal.signal(signal.SIGALRM, lambda number, frame: heard.append(number))
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
listener = socket.create_server(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8700))
while True:
    connection, _ = listener.accept()
    for line in connection.makefile():
        word = line.strip()
        if word == "wait":
            before = len(heard)
            while len(heard) < before + 3:
                time.sleep(0.001)
        elif word == "once":
            signal.setitimer(signal.ITIMER_REAL, 0)
            before = len(heard)
            signal.setitimer(signal.ITIMER_REAL, 0.002)
            while len(heard) == before:
                time.sleep(0.001)
        elif word == "again":
            signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
        connection.sendall(f"{word} {len(heard)}\n".encode())
        if word == "end":
            os._exit(0)
