// The same requests to this server and to the reference server: what they answer is the same, or the
// difference is on the list.
import { DurableStreamTestServer } from "@durable-streams/server";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { IN_THE_LOG, startServer } from "../server.mjs";
import { IDS } from "./differences.mjs";
import { compare } from "./run.mjs";

const SEEDS = (process.env.DIFFERENTIAL_SEEDS ?? "1").split(",").map(Number);
const COUNT = Number(process.env.DIFFERENTIAL_COUNT ?? "2000");

describe("beside the reference server", () => {
  let ours;
  let theirs;

  beforeAll(async () => {
    ours = await startServer(IN_THE_LOG);
    theirs = new DurableStreamTestServer({ port: 0, longPollTimeout: 500, webhooks: true });
    await theirs.start();
  });
  afterAll(async () => {
    await theirs?.stop();
    await ours?.stop();
  });

  it.each(SEEDS)(`${COUNT} requests of seed %i are answered alike`, { timeout: 600_000 }, async (seed) => {
    const bases = [ours.baseUrl, theirs.url ?? theirs.baseUrl];
    const result = await compare({ seed, count: COUNT, bases });
    expect(result.unexplained, `repeat: DIFFERENTIAL_SEEDS=${seed} npx vitest run differential`)
      .toEqual([]);
    // Requests that all fail would be answered alike by any two servers.
    const count = (pattern) => Object.entries(result.statuses)
      .filter(([status]) => pattern.test(status)).reduce((sum, [, number]) => sum + number, 0);
    expect(count(/ 2\d\d$/) / COUNT).toBeGreaterThan(0.3);
    expect(Object.keys(result.statuses).length).toBeGreaterThan(20);
    expect(Object.keys(result.explained).every((id) => IDS.includes(id))).toBe(true);
  });
});
