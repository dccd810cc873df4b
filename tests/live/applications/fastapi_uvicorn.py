"""FastAPI on uvicorn. Odd numbers are added on the event loop, even ones in a thread of its pool."""

import sys
import uuid
from typing import Any

import fastapi
import uvicorn
from ledger import Ledger

LEDGER = Ledger()
app = fastapi.FastAPI()


@app.post("/odd")
async def add(request: list[Any]) -> dict:
    return {**LEDGER.add(*request), "luck": [str(uuid.uuid4())]}


@app.post("/even")
def add_in_pool(request: list[Any]) -> dict:
    return {**LEDGER.add(*request), "luck": [str(uuid.uuid4())]}


@app.get("/")
async def dump() -> dict:
    return LEDGER.dump()


if __name__ == "__main__":
    parser = sys.argv[2]
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), http=parser, log_level="warning")
