"""An asyncio server with timeouts, tasks in sets, and work in an executor."""

import asyncio
import sys
import time


def slow(text):
    time.sleep(0.001)
    return text.upper()


async def serve(reader, writer):
    loop = asyncio.get_running_loop()
    while True:
        try:
            line = await asyncio.wait_for(reader.readline(), 0.02)
        except TimeoutError:
            writer.write(b"slow client\n")
            continue
        if not line:
            break
        answer = await loop.run_in_executor(None, slow, line.decode())
        tasks = {asyncio.ensure_future(asyncio.sleep(0, index)) for index in range(5)}
        done, _ = await asyncio.wait(tasks)
        order = [task.result() for task in done]
        writer.write(f"{answer.strip()} {order} {writer.get_extra_info('peername')}\n".encode())
        await writer.drain()
    writer.close()


async def main(port):
    server = await asyncio.start_server(serve, "localhost", port)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 8700))
