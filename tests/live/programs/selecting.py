"""A server in one thread on selectors, with a wake-up pipe that another thread writes to."""

import os
import selectors
import socket
import sys
import threading
import time

SELECTORS = {
    "epoll": selectors.EpollSelector,
    "poll": selectors.PollSelector,
    "select": selectors.SelectSelector,
}


def chatter(number):
    for index in range(5):
        time.sleep(0.003)
        os.write(number, b"%d" % index)


def main(port, kind):
    selector = SELECTORS[kind]()
    listener = socket.create_server(("127.0.0.1", port))
    listener.setblocking(False)
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    selector.register(listener, selectors.EVENT_READ)
    selector.register(reading, selectors.EVENT_READ)
    threading.Thread(target=chatter, args=(writing,), daemon=True).start()
    heard, pending = b"", {}
    while True:
        for key, events in selector.select(0.05):
            if key.fileobj is listener:
                connection, _ = listener.accept()
                connection.setblocking(False)
                selector.register(connection, selectors.EVENT_READ)
                pending[connection] = b""
            elif key.fd == reading:
                heard += os.read(reading, 100)
            elif events & selectors.EVENT_WRITE:
                sent = key.fileobj.send(pending[key.fileobj])
                pending[key.fileobj] = pending[key.fileobj][sent:]
                if not pending[key.fileobj]:
                    selector.modify(key.fileobj, selectors.EVENT_READ)
            else:
                data = key.fileobj.recv(100)
                if not data:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
                    continue
                pending[key.fileobj] += b"%d %s %s\n" % (key.fd, heard, data.replace(b"\n", b";"))
                selector.modify(key.fileobj, selectors.EVENT_READ | selectors.EVENT_WRITE)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8700, sys.argv[2] if len(sys.argv) > 2 else "epoll")
