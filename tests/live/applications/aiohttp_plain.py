"""aiohttp with timeouts, an executor, tasks in sets, and uuids, luck and moments in its replies."""

import asyncio
import random
import sys
import time
import uuid
from datetime import UTC, datetime

from aiohttp import web
from ledger import Ledger

LEDGER = Ledger()
BEATS = []


def slowly(request):
    time.sleep(0.001)
    return LEDGER.add(*request)


async def add(request):
    body = await asyncio.wait_for(request.json(), 30)
    try:
        await asyncio.wait_for(asyncio.sleep(1), 0.002)
    except TimeoutError:
        late = True
    else:
        late = False
    tasks = {asyncio.ensure_future(asyncio.sleep(0, number)) for number in range(4)}
    done, _ = await asyncio.wait(tasks)
    order = [task.result() for task in done]
    reply = await asyncio.get_running_loop().run_in_executor(None, slowly, body)
    moment = datetime.now(UTC).isoformat()
    luck = [str(uuid.uuid4()), random.random(), moment, order, late, len(BEATS), request.remote]
    return web.json_response({**reply, "luck": luck})


async def dump(request):
    return web.json_response(LEDGER.dump())


async def beat(app):
    async def forever():
        while True:
            await asyncio.sleep(0.1)
            BEATS.append(time.time())

    task = asyncio.create_task(forever())
    yield
    task.cancel()


if __name__ == "__main__":
    app = web.Application()
    app.router.add_post("/", add)
    app.router.add_get("/", dump)
    app.cleanup_ctx.append(beat)
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None, access_log=None)
