// A browser: EventSource from a page of another origin, eight live streams at once, over HTTP/1.1 (where a
// browser opens six connections to a host, so the streams have two) and over HTTP/2 (one connection).
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";

import { itUnless, tool, withServer } from "./support.mjs";

const plain = withServer();
const secure = withServer(["--tls-self-signed=true"]);
const STREAMS = 8;
const reason = tool("chromium") ? undefined : "chromium is not installed";

/// The page: follows all streams, appends to each once all are up to date, reads one by fetch, reports.
function page(urls) {
  return `<!doctype html><script type="module">
const urls = ${JSON.stringify(urls)};
const report = (what) => fetch("/report", { method: "POST", body: JSON.stringify(what) });
const seen = urls.map(() => ({ data: [], controls: 0 }));
const headers = { "Content-Type": "text/plain", "Producer-Id": "page", "Producer-Epoch": "0", "Producer-Seq": "0" };
try {
  const sources = urls.map((url) => new EventSource(url + "?offset=now&live=sse"));
  let look = () => {};
  sources.forEach((source, at) => {
    source.addEventListener("control", () => { seen[at].controls += 1; look(); });
    source.addEventListener("data", (event) => { seen[at].data.push(event.data); look(); });
  });
  const all = (has) => new Promise((resolve) => {
    look = () => seen.every(has) && resolve();
    look();
  });
  await all((stream) => stream.controls > 0);
  const here = all((stream) => stream.data.length > 0);
  const statuses = [];
  for (const [at, url] of urls.entries()) {
    const answer = await fetch(url, { method: "POST", headers, body: "to " + at });
    statuses.push(answer.status + " " + answer.headers.get("Producer-Seq"));
  }
  await here;
  sources.forEach((source) => source.close());
  const read = await fetch(urls[0] + "?offset=-1");
  const tag = read.headers.get("ETag");
  const again = await fetch(urls[0] + "?offset=-1", { headers: { "If-None-Match": tag }, cache: "no-store" });
  await report({
    data: seen.map((stream) => stream.data), statuses, text: await read.text(),
    next: read.headers.get("Stream-Next-Offset"), again: again.status,
  });
} catch (error) {
  await report({ error: String(error) });
}
</script>`;
}

/// Shows the page to a browser, and waits for its report.
async function show(html) {
  const folder = await mkdtemp(join(tmpdir(), "highwater-browser-"));
  let reported;
  const report = new Promise((resolve) => (reported = resolve));
  const host = http.createServer(async (request, response) => {
    if (request.method !== "POST") return response.writeHead(200, { "Content-Type": "text/html" }).end(html);
    let body = "";
    for await (const chunk of request) body += chunk;
    response.end();
    return reported(JSON.parse(body));
  });
  await new Promise((resolve) => host.listen(0, "127.0.0.1", resolve));
  const browser = spawn("chromium", [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--ignore-certificate-errors",
    "--disable-background-networking", "--disable-component-update", `--user-data-dir=${folder}`,
    `http://127.0.0.1:${host.address().port}/`,
  ], { stdio: "ignore", detached: true });
  const ended = new Promise((resolve) => browser.on("exit", resolve));
  let late;
  try {
    const patience = new Promise((_, reject) => {
      late = setTimeout(() => reject(new Error("the page reports nothing")), 50_000);
    });
    return await Promise.race([report, patience]);
  } finally {
    clearTimeout(late);
    // The browser's own processes, too.
    process.kill(-browser.pid, "SIGKILL");
    await ended;
    host.close();
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

for (const [version, server, hosts] of [
  ["HTTP/1.1", plain, ["127.0.0.1", "localhost"]],
  ["HTTP/2", secure, ["127.0.0.1"]],
]) {
  const name = `a page of another origin follows ${STREAMS} streams at once (${version})`;
  itUnless(reason, name, { timeout: 60_000 }, async () => {
    const urls = [];
    for (let at = 0; at < STREAMS; at += 1) {
      const url = new URL(server.url(`browser/${version.replace("/", "-")}/${at}`));
      url.hostname = hosts[at % hosts.length];
      urls.push(url.href);
    }
    const made = await show(page([]).replace(/<script[^]*<\/script>/, maker(urls)));
    expect(made).toEqual({ statuses: urls.map(() => 201) });
    const told = await show(page(urls));
    expect(told).toEqual({
      data: urls.map((_, at) => [`to ${at}`]),
      statuses: urls.map(() => "200 0"),
      text: "to 0",
      next: expect.any(String),
      again: 304,
    });
  });
}

/// A page that makes the streams.
function maker(urls) {
  return `<script type="module">
const statuses = [];
for (const url of ${JSON.stringify(urls)}) {
  const answer = await fetch(url, { method: "PUT", headers: { "Content-Type": "text/plain" } });
  statuses.push(answer.status);
}
await fetch("/report", { method: "POST", body: JSON.stringify({ statuses }) });
</script>`;
}
