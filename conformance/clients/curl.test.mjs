// curl: HTTP/1.1 and HTTP/2, plain and TLS, chunked bodies, events.
import { spawn } from "node:child_process";
import { expect } from "vitest";

import { itUnless, run, tool, until, withServer } from "./support.mjs";

const plain = withServer();
const secure = withServer(["--tls-self-signed=true"]);
const reason = tool("curl") ? undefined : "curl is not installed";
const TEXT = ["-H", "Content-Type: text/plain"];
const WAYS = [
  ["HTTP/1.1", plain, ["--http1.1"], "1.1"],
  ["HTTP/2, known before", plain, ["--http2-prior-knowledge"], "2"],
  ["HTTP/2, asked for in clear: stays with 1.1", plain, ["--http2"], "1.1"],
  ["HTTP/1.1 over TLS", secure, ["-k", "--http1.1"], "1.1"],
  ["HTTP/2 over TLS", secure, ["-k", "--http2"], "2"],
];

/// Starts a program; `ended` becomes its exit code.
function started(program, args) {
  const child = spawn(program, args);
  child.ended = new Promise((resolve) => child.on("exit", resolve));
  return child;
}

for (const [way, server, flags, version] of WAYS) {
  const curl = (...args) => run("curl", "-sS", "--fail-with-body", ...flags, ...args);

  itUnless(reason, `a stream is made, appended to, read and followed (${way})`, async () => {
    const url = server.url(`curl/${way.replace(/\W+/g, "-")}`);
    const said = await curl("-X", "PUT", ...TEXT, "-w", "%{http_version} %{http_code}", url);
    expect(said).toBe(`${version} 201`);
    await curl("-d", "hello ", ...TEXT, url);
    // A body of unknown length: chunks in HTTP/1.1, frames in HTTP/2.
    const upload = started("curl", ["-sS", ...flags, "-T", "-", "-X", "POST", ...TEXT, "-H", "Expect:", url]);
    for (const part of ["wor", "ld", "!".repeat(100_000)]) upload.stdin.write(part);
    upload.stdin.end();
    expect(await upload.ended).toBe(0);
    expect(await curl(url)).toBe(`hello world${"!".repeat(100_000)}`);

    const live = started("curl", ["-sSN", ...flags, `${url}?offset=now&live=sse`]);
    let events = "";
    live.stdout.on("data", (chunk) => (events += chunk));
    await until("the first event", () => events.includes("upToDate"));
    await curl("-d", "live", ...TEXT, url);
    await until("the event", () => events.includes("data:live\n"));
    await curl("-X", "POST", "-H", "Stream-Closed: true", url);
    expect(await live.ended, "an ended stream ends the answer in order").toBe(0);
    expect(events).toContain('"streamClosed":true');
  });
}
