"""Random exchanges (exchanges.py) over some connections at once, several at a time on each of them.

SKERRY_PROXY_SEED: another seed makes others.
"""

import asyncio
import os
import random
from collections import Counter
from urllib.parse import urlsplit

from exchanges import check_answer, check_request, exchange
from messages import answers
from raw_client import PATIENCE

SEED = os.environ.get("SKERRY_PROXY_SEED", "1")
CONNECTIONS = 8
PIPELINED = 4


def exchange_all(url, engine, running, count):
    """Asks `url` for so many, which `engine` answers as `running`, by their numbers, says: each must reach it once, and
    all of it must be the same on both sides."""
    waiting = iter(batches(count))

    async def connection():
        for batch in waiting:
            running.update((str(e.number), e) for e in batch)
            for e, message in zip(batch, await converse(url, batch), strict=True):
                check_answer(e, message)

    async def all_of_them():
        await asyncio.gather(*(connection() for _ in range(CONNECTIONS)))

    asyncio.run(all_of_them())
    assert not engine.malformed
    arrived = Counter(message.get("X-Exchange") for message in engine.requests)
    assert len(arrived) == count and set(arrived.values()) == {1}, "each reached the engine once"
    for message in engine.requests:
        check_request(running[message.get("X-Exchange")], message)


async def converse(url, batch):
    """Sends the requests of a batch at once on one connection, and gives an answer for each. Where the agent closes the
    connection in between, saying so, the rest goes over a new one."""
    where, left, found = urlsplit(url), list(batch), []
    while left:
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        messages = answers()
        messages.methods.extend(e.method for e in left)
        sending = asyncio.ensure_future(send(writer, b"".join(e.request for e in left)))
        done = []
        while len(done) < len(left):
            try:
                data = await asyncio.wait_for(reader.read(1 << 18), PATIENCE)
            except TimeoutError as error:
                waiting = [(e.number, e.method, e.target[:40], len(e.request), e.status) for e in left[len(done) :]]
                raise AssertionError(f"no more of the answers to {waiting}: {messages.message}") from error
            done += messages.feed(data) if data else filter(None, [messages.end()])
            if not data:
                break
        sending.cancel()
        writer.close()
        if len(done) < len(left):
            assert done, f"closed without an answer to exchange {left[0].number}"
            assert b"close" in done[-1].all(b"connection"), (
                f"closed without notice behind exchange {left[len(done) - 1].number}"
            )
        found += done
        left = left[len(done) :]
    return found


async def send(writer, data):
    r = random.Random(len(data))
    for at in range(0, len(data), 50000):
        part = data[at : at + 50000]
        middle = r.randint(0, len(part))
        for piece in (part[:middle], part[middle:]):
            writer.write(piece)
            await writer.drain()


def batches(count):
    r, number = random.Random(SEED), 0
    while number < count:
        size = min(r.randint(1, PIPELINED), count - number)
        yield [exchange(SEED, number + i, i == size - 1) for i in range(size)]
        number += size
