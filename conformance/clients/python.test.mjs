// The official Python client, in an environment of its own below this folder.
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";

import { itUnless, run, tool, withServer } from "./support.mjs";

const server = withServer();
const folder = fileURLToPath(new URL("./python", import.meta.url));
const python = `${folder}/.venv/bin/python`;

/// Makes the environment as requirements.txt has it; says why not where it cannot.
async function environment() {
  if (!tool("python3")) return "python3 is not installed";
  try {
    if (!existsSync(python)) await run("python3", "-m", "venv", `${folder}/.venv`);
    await run(python, "-m", "pip", "install", "--quiet", "-r", `${folder}/requirements.txt`);
    return undefined;
  } catch (error) {
    return `its environment cannot be made: ${String(error.stderr || error.message).trim().split("\n").at(-1)}`;
  }
}

const reason = await environment();
itUnless(reason, "the Python client does all it can", { timeout: 60_000 }, async () => {
  const base = server.url("").replace(/\/$/, "");
  expect(await run(python, `${folder}/test_client.py`, base)).toBe("passed\n");
});
