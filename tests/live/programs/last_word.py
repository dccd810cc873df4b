"""An echo server for one client that ends when it is told to, right after its last reply."""

import os
import socket
import sys
import threading
import time


def chatter():
    while True:
        time.sleep(0.001)


threading.Thread(target=chatter, daemon=True).start()
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
connection, _ = listener.accept()
while True:
    data = connection.recv(100)
    if data == b"quit":
        connection.sendall(b"bye")
        (os._exit if sys.argv[2] == "_exit" else sys.exit)(0)
    connection.sendall(data)
