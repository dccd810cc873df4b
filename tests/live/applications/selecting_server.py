"""What `talking_server` does, for many clients at a time, by asyncio; some replies take a moment.

selecting_server.py PORT
"""

import asyncio
import os
import sys
import time
import zlib


async def converse(reader, writer):
    digest = before = 0
    while line := await reader.readline():
        digest = zlib.crc32(line.rstrip(b"\n"), digest)
        number = int(line.split(b" ", 1)[0])
        if number % 50 == 0:
            await asyncio.sleep(0.001)
        if number % 7 == 0:
            os.urandom(8)
        now = time.monotonic()
        writer.write(b"%d %d %d\n" % (number, digest, now >= before))
        before = now
        await writer.drain()
    writer.close()


async def main():
    server = await asyncio.start_server(converse, "127.0.0.1", int(sys.argv[1]))
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
