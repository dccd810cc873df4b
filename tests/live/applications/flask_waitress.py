"""Flask on waitress: a thread that polls, others that work. It shows its environment and temporary files."""

import os
import random
import sys
import tempfile
import uuid

import flask
import waitress
from ledger import Ledger

LEDGER = Ledger()
app = flask.Flask(__name__)


@app.post("/")
def add():
    with tempfile.NamedTemporaryFile() as file:
        file.write(flask.request.data)
        luck = [str(uuid.uuid4()), random.random(), file.name, repr(os.environ)]
    return {**LEDGER.add(*flask.request.get_json()), "luck": luck}


@app.get("/")
def dump():
    return LEDGER.dump()


if __name__ == "__main__":
    waitress.serve(app, host="127.0.0.1", port=int(sys.argv[1]), threads=4)
