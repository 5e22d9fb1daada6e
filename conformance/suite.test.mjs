// The public suite, with subscriptions, against a server of its own that moves home meanwhile.
import { runConformanceTests } from "@durable-streams/server-conformance-tests";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { lanesAsked, startServer } from "./server.mjs";

const options = { baseUrl: "", longPollTimeoutMs: 500, subscriptions: true };
let server;

beforeAll(async () => {
  server = await startServer(["--checkpoint-interval=1s"]);
  options.baseUrl = server.baseUrl;
});
afterAll(async () => server?.stop());

// `cargo xtask` counts the tests below this name: there must be as many as the suite has.
describe("the public suite", () => runConformanceTests(options));

describe("meanwhile", () => {
  it("every lane has moved home, and no checkpoint failed", async () => {
    const lanes = await server.counters("highwater_checkpoints_total", "lane");
    expect(lanes).toHaveLength(lanesAsked());
    expect(Math.min(...lanes)).toBeGreaterThan(1);
    const moved = await server.counters("highwater_home_bytes_total", "lane");
    expect(Math.min(...moved)).toBeGreaterThan(0);
    const failures = await server.counters("highwater_checkpoint_failures_total", "lane");
    expect(Math.max(...failures)).toBe(0);
  });
});
