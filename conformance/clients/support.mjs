// What the tests of clients share: a server each, tools that may be missing, and patience.
import { execFile, spawnSync } from "node:child_process";
import { appendFileSync } from "node:fs";
import { promisify } from "node:util";
import { afterAll, beforeAll, it } from "vitest";

import { startServer } from "../server.mjs";

/// Starts a server for the tests of a file; `server.url(name)` is a stream's.
export function withServer(flags = []) {
  const held = { url: (name) => held.server.url(name), get baseUrl() { return held.server.baseUrl; } };
  beforeAll(async () => {
    held.server = await startServer(flags);
  });
  afterAll(async () => held.server?.stop());
  return held;
}

/// Where a program is; nothing if it is not there.
export function tool(program) {
  const found = spawnSync("which", [program, `/usr/sbin/${program}`]);
  return found.stdout?.toString().split("\n").find((line) => line !== "");
}

/// A test that is not run for a reason, which is said.
export function itUnless(reason, name, ...rest) {
  if (!reason) return it(name, ...rest);
  const line = `NOT RUN: ${name}: ${reason}\n`;
  process.stderr.write(line);
  if (process.env.HIGHWATER_NOT_RUN_FILE) appendFileSync(process.env.HIGHWATER_NOT_RUN_FILE, line);
  return it.skip(name, ...rest);
}

/// Runs a program to its end; gives what it printed, or throws with what it said.
export async function run(program, ...args) {
  const { stdout } = await promisify(execFile)(program, args, { timeout: 60_000, maxBuffer: 1 << 24 });
  return stdout;
}

/// Waits until something is so.
export async function until(what, isSo, patienceMs = 20_000) {
  const deadline = Date.now() + patienceMs;
  for (;;) {
    const answer = await isSo();
    if (answer) return answer;
    if (Date.now() > deadline) throw new Error(`in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
