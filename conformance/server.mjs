// Starts the server under test on a free port, with its data in a new directory, and ends it.
//
// CONFORMANCE_BINARY is the program; CONFORMANCE_ARGS are more flags, separated by spaces.
import { spawn, spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/// Nothing moves home meanwhile: where each append ended is known in the log only.
export const IN_THE_LOG = ["--checkpoint-interval=1h"];

const STARTED = /listening on (\S+),/;

/// Flags of the environment.
function asked() {
  return (process.env.CONFORMANCE_ARGS ?? "").split(" ").filter((arg) => arg !== "");
}

function nameOf(flag) {
  return flag.split("=")[0];
}

/// How many lanes the log is asked to have.
export function lanesAsked() {
  const flag = asked().find((arg) => arg.startsWith("--wal-lanes="));
  return Number(flag?.split("=")[1] ?? 1);
}

/// Starts one, with more flags if given; those of the environment go before them.
export async function startServer(flags = []) {
  const binary = process.env.CONFORMANCE_BINARY ?? "../target/release/highwater";
  const folder = await mkdtemp(join(tmpdir(), "highwater-conformance-"));
  const data = join(folder, "data");
  const args = [
    "serve",
    "--listen=127.0.0.1:0",
    `--data-dir=${data}`,
    "--long-poll-timeout=500ms",
    "--webhook-localhost=true",
    ...flags.filter((flag) => !asked().some((other) => nameOf(other) === nameOf(flag))),
    ...asked(),
  ];
  // What is meant for the tests alone would be an unknown setting.
  const { HIGHWATER_NOT_RUN_FILE: _, ...env } = process.env;
  const child = spawn(binary, args, { env, stdio: ["ignore", "pipe", "inherit"] });
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
    /// What a counter of `/metrics` says, once for each value of its label.
    async counters(name, label) {
      const answer = await fetch(`${baseUrl}/metrics`);
      const lines = (await answer.text()).split("\n");
      const own = lines.filter((line) => line.startsWith(`${name}{${label}=`));
      return own.map((line) => Number(line.split(" ")[1]));
    },
    /// Ends it in order; what it leaves must be whole.
    async stop() {
      child.kill("SIGTERM");
      const code = await ended;
      const check = spawnSync(binary, ["check", data], { encoding: "utf8" });
      await rm(folder, { recursive: true, force: true });
      if (code !== 0) throw new Error(`the server ended with ${code}`);
      if (check.status !== 0) throw new Error(`what it left is not whole: ${check.stdout}`);
    },
  };
}
