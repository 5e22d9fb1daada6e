"""The official Python client: create, append, order, catch-up, long-poll, events, async."""

import asyncio
import sys
import threading

from durable_streams import AsyncDurableStream, DurableStream, SeqConflictError, stream

BASE = sys.argv[1]


def messages_are_read_from_any_offset():
    url = f"{BASE}/py/json"
    handle = DurableStream.create(url, content_type="application/json", ttl_seconds=3600)
    handle.append({"n": 1})
    with stream(url, live=False) as res:
        assert res.read_json() == [{"n": 1}]
        offset = res.offset
    handle.append({"n": 2})
    with stream(url, offset=offset, live=False) as res:
        assert res.read_json() == [{"n": 2}]


def live_readers_are_given_what_comes(live):
    url = f"{BASE}/py/live-{live}"
    handle = DurableStream.create(url, content_type="application/json")
    handle.append({"n": 0})
    seen = []
    has_begun = threading.Event()

    def read():
        # A live mode that is named needs an offset; without a name the client catches up first.
        with stream(url, live=live, offset=None if live is True else "-1") as res:
            for item in res.iter_json():
                seen.append(item["n"])
                has_begun.set()
                if item["n"] == 20:
                    return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    assert has_begun.wait(20)
    for n in range(1, 21):
        handle.append({"n": n})
    reader.join(20)
    assert seen == list(range(21)), seen


def bytes_arrive_as_they_were_appended():
    url = f"{BASE}/py/bytes"
    handle = DurableStream.create(url, content_type="application/octet-stream")
    body = bytes(range(256)) * 50
    handle.append(body)
    with stream(url, live=False) as res:
        assert res.read_bytes() == body


def writers_that_are_late_are_told():
    handle = DurableStream.create(f"{BASE}/py/seq", content_type="text/plain")
    handle.append("a", seq="2")
    try:
        handle.append("b", seq="1")
        raise AssertionError("an earlier sequence was taken")
    except SeqConflictError:
        pass
    handle.delete()


async def the_asynchronous_client_does_the_same():
    url = f"{BASE}/py/async"
    handle = await AsyncDurableStream.create(url, content_type="application/json")
    for n in range(50):
        await handle.append({"n": n})
    async with handle.stream(live="sse", offset="-1") as res:
        seen = []
        async for item in res.iter_json():
            seen.append(item["n"])
            if len(seen) == 50:
                break
    assert seen == list(range(50)), seen
    await handle.aclose()


messages_are_read_from_any_offset()
bytes_arrive_as_they_were_appended()
for mode in (True, "long-poll", "sse"):
    live_readers_are_given_what_comes(mode)
writers_that_are_late_are_told()
asyncio.run(the_asynchronous_client_does_the_same())
print("passed")
