"""xmlrpc.server, with threads."""

import sys
from socketserver import ThreadingMixIn
from xmlrpc.server import SimpleXMLRPCRequestHandler, SimpleXMLRPCServer

from ledger import Ledger


class Handler(SimpleXMLRPCRequestHandler):
    protocol_version = "HTTP/1.1"


class Server(ThreadingMixIn, SimpleXMLRPCServer):
    daemon_threads = True


if __name__ == "__main__":
    ledger = Ledger()
    with Server(("127.0.0.1", int(sys.argv[1])), requestHandler=Handler, logRequests=False) as server:
        server.register_function(ledger.add)
        server.register_function(ledger.dump)
        server.serve_forever()
