// Starts the server under test on a free port, with its data in a new directory, and ends it.
//
// CONFORMANCE_BINARY is the program; CONFORMANCE_ARGS are more flags, separated by spaces.
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/// Nothing moves home meanwhile: where each append ended is known in the log only.
export const IN_THE_LOG = ["--checkpoint-interval=1h"];

const STARTED = /listening on (\S+),/;

/// Starts one, with more flags if given.
export async function startServer(flags = []) {
  const binary = process.env.CONFORMANCE_BINARY ?? "../target/release/highwater";
  const more = (process.env.CONFORMANCE_ARGS ?? "").split(" ").filter((arg) => arg !== "");
  const folder = await mkdtemp(join(tmpdir(), "highwater-conformance-"));
  const args = [
    "serve",
    "--listen=127.0.0.1:0",
    `--data-dir=${join(folder, "data")}`,
    "--long-poll-timeout=500ms",
    "--webhook-localhost=true",
    ...more,
    ...flags,
  ];
  const child = spawn(binary, args, { stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise((resolve) => child.on("exit", resolve));
  const baseUrl = await new Promise((resolve, reject) => {
    let text = "";
    child.on("error", reject);
    child.on("exit", (code) => reject(new Error(`the server ended with ${code}: ${text}`)));
    child.stdout.on("data", (chunk) => {
      text += chunk;
      const found = text.match(STARTED);
      if (found) resolve(found[1]);
    });
  });
  return {
    baseUrl,
    url: (name) => `${baseUrl}/v1/stream/${name}`,
    async stop() {
      child.kill("SIGTERM");
      const code = await ended;
      await rm(folder, { recursive: true, force: true });
      if (code !== 0) throw new Error(`the server ended with ${code}`);
    },
  };
}
