// nginx in front, with its default settings: HTTP/1.0 to the server, buffers, and a timeout of 60 s.
import { spawn } from "node:child_process";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { DurableStream, IdempotentProducer, stream } from "@durable-streams/client";
import { afterAll, beforeAll, expect } from "vitest";

import { itUnless, tool, until, withServer } from "./support.mjs";

const server = withServer(["--trusted-proxies=127.0.0.1"]);
const nginx = tool("nginx");
const reason = nginx ? undefined : "nginx is not installed";
let base;
let proxy;
let folder;

beforeAll(async () => {
  if (reason) return;
  const port = await freePort();
  folder = await mkdtemp(join(tmpdir(), "highwater-nginx-"));
  await chmod(folder, 0o755);
  const upstream = new URL(server.baseUrl).host;
  // Paths only: everything else is as nginx has it.
  const paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((name) => `${name}_temp_path ${folder}/${name};`).join("\n");
  await writeFile(join(folder, "nginx.conf"), `
pid ${folder}/pid;
error_log ${folder}/error.log;
events {}
http {
access_log off;
${paths}
server { listen 127.0.0.1:${port}; location / { proxy_pass http://${upstream}; } }
}`);
  proxy = spawn(nginx, ["-p", folder, "-c", join(folder, "nginx.conf"), "-g", "daemon off;"]);
  proxy.ended = new Promise((resolve) => proxy.on("exit", resolve));
  base = `http://127.0.0.1:${port}`;
  await until("nginx answers", () => fetch(`${base}/healthz`).then(({ ok }) => ok, () => false));
});
afterAll(async () => {
  proxy?.kill("SIGTERM");
  await proxy?.ended;
  if (folder) await rm(folder, { recursive: true, force: true });
});

function freePort() {
  return new Promise((resolve) => {
    const probe = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

const url = (name) => `${base}/v1/stream/${name}`;

itUnless(reason, "nginx: what is appended by a producer is read in chunks", async () => {
  const handle = await DurableStream.create({ url: url("catch-up"), contentType: "application/json" });
  const producer = new IdempotentProducer(handle, "p", { lingerMs: 1 });
  const sent = Array.from({ length: 300 }, (_, n) => ({ n, text: "x".repeat(1000) }));
  sent.forEach((message) => producer.append(JSON.stringify(message)));
  await producer.flush();
  await producer.close();
  const res = await stream({ url: url("catch-up"), live: false });
  expect(await res.json()).toEqual(sent);
});

for (const live of ["long-poll", "sse"]) {
  itUnless(reason, `nginx: each message is there before the next is sent (${live})`, async () => {
    const handle = await DurableStream.create({ url: url(live), contentType: "application/json" });
    const res = await stream({ url: url(live), live, offset: "-1" });
    const seen = [];
    res.subscribeJson(async ({ items }) => {
      seen.push(...items.map(({ n }) => n));
    });
    for (let n = 0; n < 20; n += 1) {
      await handle.append(JSON.stringify({ n }));
      // A proxy that waits for more would wait in vain.
      await until(`message ${n}`, () => seen.length > n);
    }
    await handle.close();
    await until("the end", () => res.streamClosed);
    expect(seen).toEqual(Array.from({ length: 20 }, (_, n) => n));
  });
}

itUnless(reason, "nginx: errors and what they say come through", async () => {
  const answer = await fetch(url("none"));
  expect([answer.status, (await answer.json()).code]).toEqual([404, "STREAM_NOT_FOUND"]);
  const made = await fetch(url("made"), { method: "PUT", headers: { "Content-Type": "text/plain" } });
  expect([made.status, made.headers.get("stream-next-offset")]).toEqual([201, expect.any(String)]);
  const read = await fetch(url("made"));
  const tag = read.headers.get("etag");
  expect((await fetch(url("made"), { headers: { "If-None-Match": tag } })).status).toBe(304);
});
