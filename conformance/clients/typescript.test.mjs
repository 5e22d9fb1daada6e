// The official TypeScript client: create, append, exactly-once producers, catch-up, long-poll, events,
// bytes, text, JSON, resuming, closing, deleting.
import { DurableStream, IdempotentProducer, stream } from "@durable-streams/client";
import { expect, it } from "vitest";

import { until, withServer } from "./support.mjs";

const server = withServer();

it("a stream of messages is appended to and read from any offset", async () => {
  const url = server.url("ts/json");
  const handle = await DurableStream.create({ url, contentType: "application/json", ttlSeconds: 3600 });
  await handle.append(JSON.stringify({ n: 1 }), { seq: "1" });
  const first = await stream({ url, live: false });
  expect(await first.json()).toEqual([{ n: 1 }]);
  await handle.append(JSON.stringify({ n: 2 }), { seq: "2" });
  // The client makes one message of what it is given.
  await handle.append(JSON.stringify([3, 4]), { seq: "3" });
  const rest = await stream({ url, offset: first.offset, live: false });
  expect(await rest.json()).toEqual([{ n: 2 }, [3, 4]]);
  const head = await DurableStream.head({ url });
  expect(head.contentType).toBe("application/json");
  expect(head.offset).toBe(rest.offset);
});

it("a pipelining producer's messages stand once and in order", async () => {
  const url = server.url("ts/producer");
  const handle = await DurableStream.create({ url, contentType: "application/json" });
  const errors = [];
  const onError = (error) => errors.push(error);
  const producer = new IdempotentProducer(handle, "p", { autoClaim: true, onError, lingerMs: 1 });
  const sent = Array.from({ length: 2000 }, (_, n) => ({ n, text: "x".repeat(n % 50) }));
  for (const [at, message] of sent.entries()) {
    producer.append(JSON.stringify(message));
    if (at % 100 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await producer.flush();
  await producer.close();
  expect(errors).toEqual([]);
  const res = await stream({ url, live: false });
  expect(await res.json()).toEqual(sent);
});

it.each(["long-poll", "sse"])("a live reader (%s) is given what comes, up to the end", async (live) => {
  const url = server.url(`ts/live-${live}`);
  const handle = await DurableStream.create({ url, contentType: "application/json" });
  await handle.append(JSON.stringify({ n: 0 }));
  const res = await stream({ url, live, offset: "-1" });
  const seen = [];
  let isClosed = false;
  res.subscribeJson(async (batch) => {
    seen.push(...batch.items.map(({ n }) => n));
    isClosed ||= batch.streamClosed;
  });
  for (let n = 1; n <= 20; n += 1) {
    await handle.append(JSON.stringify({ n }));
  }
  await handle.close({ body: JSON.stringify({ n: 21 }) });
  await until("the end", () => seen.length === 22 && (isClosed || res.streamClosed));
  expect(seen).toEqual(Array.from({ length: 22 }, (_, n) => n));
});

it.each(["long-poll", "sse"])("bytes and text arrive as they were appended (%s)", async (live) => {
  const bytes = Uint8Array.from({ length: 3000 }, (_, at) => (at * 7) % 256);
  const text = "a\r\nb\rc\n\n data: x — ✓ \u{1F600}\n";
  for (const [kind, contentType, body] of [
    ["bytes", "application/octet-stream", bytes],
    ["text", "text/plain", text],
  ]) {
    const url = server.url(`ts/${kind}-${live}`);
    const handle = await DurableStream.create({ url, contentType });
    await handle.append(body);
    await handle.close();
    const res = await stream({ url, live, offset: "-1" });
    const whole = Buffer.from(await res.body());
    expect(whole.equals(Buffer.from(body)), `${kind} ${live}: ${JSON.stringify(`${whole}`)}`).toBe(true);
  }
});

it("what is closed or deleted is said to be", async () => {
  const url = server.url("ts/end");
  const handle = await DurableStream.create({ url, contentType: "text/plain" });
  await handle.close();
  await expect(handle.append("late")).rejects.toMatchObject({ status: 409 });
  await DurableStream.delete({ url });
  expect(await DurableStream.head({ url })).toMatchObject({ exists: false });
});
