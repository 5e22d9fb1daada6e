// The transport of the AI SDK: a generation is written to a stream, read while it runs, and read again
// after a reload.
import http from "node:http";

import { createDurableChatTransport, toDurableStreamResponse } from "@durable-streams/aisdk-transport";
import { afterAll, beforeAll, expect, it } from "vitest";

import { withServer } from "./support.mjs";

const server = withServer();
const CHUNKS = [
  { type: "start", messageId: "m" },
  { type: "text-start", id: "t" },
  ...Array.from({ length: 50 }, (_, n) => ({ type: "text-delta", id: "t", delta: `word ${n} ` })),
  { type: "text-end", id: "t" },
  { type: "finish" },
];
let api;
let url;

beforeAll(async () => {
  let active;
  const answer = async (request) => {
    if (request.method === "GET") {
      return active ? Response.json({ streamUrl: active }) : new Response(null, { status: 204 });
    }
    active = server.url(`ai/${crypto.randomUUID()}`);
    const source = async function* source() {
      for (const chunk of CHUNKS) {
        await new Promise((resolve) => setTimeout(resolve, 2));
        yield chunk;
      }
    };
    return toDurableStreamResponse({ source: source(), stream: { writeUrl: active, readUrl: active } });
  };
  api = http.createServer(async (request, response) => {
    const { status, headers, body } = await answer(request);
    response.writeHead(status, Object.fromEntries(headers));
    for await (const chunk of body ?? []) response.write(chunk);
    response.end();
  });
  await new Promise((resolve) => api.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${api.address().port}/api/chat`;
});
afterAll(() => api?.close());

it("a generation is read while it is written, and again after a reload", async () => {
  const transport = createDurableChatTransport({ api: url });
  const read = async (stream) => {
    const chunks = [];
    for await (const chunk of stream) chunks.push(chunk);
    return chunks;
  };
  const message = { id: "u", role: "user", parts: [{ type: "text", text: "hi" }] };
  const sent = { trigger: "submit-message", chatId: "c", messages: [message] };
  expect(await read(await transport.sendMessages(sent))).toEqual(CHUNKS);
  expect(await read(await transport.reconnectToStream({ chatId: "c" }))).toEqual(CHUNKS);
});
