// The same requests to this server and to the reference server: what they answer is the same, or the
// difference is on the list, whose entries are each needed and excuse nothing else.
import http from "node:http";

import { DurableStreamTestServer } from "@durable-streams/server";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { IN_THE_LOG, startServer } from "../server.mjs";
import { differences, Offsets } from "./compare.mjs";
import { explain, IDS } from "./differences.mjs";
import { NEAR_MISSES } from "./near-misses.mjs";
import { compare, Pair } from "./run.mjs";
import { WITNESSES } from "./witnesses.mjs";

const SEEDS = (process.env.DIFFERENTIAL_SEEDS ?? "1").split(",").map(Number);
const COUNT = Number(process.env.DIFFERENTIAL_COUNT ?? "2000");

describe("beside the reference server", () => {
  let ours;
  let theirs;
  let bases;

  beforeAll(async () => {
    ours = await startServer(IN_THE_LOG);
    theirs = new DurableStreamTestServer({ port: 0, longPollTimeout: 500, webhooks: true });
    await theirs.start();
    bases = [ours.baseUrl, theirs.url ?? theirs.baseUrl];
  });
  afterAll(async () => {
    await theirs?.stop();
    await ours?.stop();
  });

  it.each(SEEDS)(`${COUNT} requests of seed %i are answered alike`, { timeout: 600_000 }, async (seed) => {
    const result = await compare({ seed, count: COUNT, bases });
    expect(result.unexplained, `repeat: DIFFERENTIAL_SEEDS=${seed} npx vitest run differential`)
      .toEqual([]);
    // Requests that all fail would be answered alike by any two servers.
    const count = (pattern) => Object.entries(result.statuses)
      .filter(([status]) => pattern.test(status)).reduce((sum, [, number]) => sum + number, 0);
    expect(count(/ 2\d\d$/) / COUNT).toBeGreaterThan(0.3);
    expect(Object.keys(result.statuses).length).toBeGreaterThan(20);
  });

  it("every entry of the list has its witness and its near misses", () => {
    expect(Object.keys(WITNESSES).sort()).toEqual([...IDS].sort());
    expect(Object.keys(NEAR_MISSES).sort()).toEqual([...IDS].sort());
  });

  it.each(IDS)("%s: needed, and no excuse for a near miss", async (id) => {
    const pair = new Pair(bases, `witness-${IDS.indexOf(id)}`);
    await pair.makeAll();
    let found = [];
    for (const request of WITNESSES[id]) {
      const whole = { slot: 0, path: pair.names[0], query: [], headers: {}, ...request };
      found = await pair.compare(whole);
    }
    pair.close();
    expect(pair.result.unexplained).toEqual([]);
    const witness = found.find((difference) => difference.id === id);
    expect(witness, "servers agree: the entry is not needed").toBeDefined();
    for (const [name, change] of NEAR_MISSES[id]) {
      const copy = structuredClone(witness);
      change(copy);
      const excuse = explain(copy.request, copy.text, copy.answers, copy.stood);
      expect(excuse, `excused: ${name}`).toBeUndefined();
    }
  });
});

describe("of two servers that are made up", () => {
  it("one that takes a tag for what it no longer has is found out", async () => {
    let content = "old";
    const serve = (isStale) => http.createServer(({ headers }, answer) => {
      const tag = isStale ? '"same"' : `"${content}"`;
      const isKnown = headers["if-none-match"] === tag;
      answer.writeHead(isKnown ? 304 : 200, { etag: tag, "cache-control": "no-store" });
      answer.end(isKnown ? "" : content);
    });
    const servers = [serve(true), serve(false)];
    const bases = await Promise.all(servers.map((server) => new Promise((resolve) => {
      server.listen(0, "127.0.0.1", () => resolve(`http://127.0.0.1:${server.address().port}`));
    })));
    const pair = new Pair(bases, "made-up");
    const read = (headers, query) =>
      pair.compare({ method: "GET", slot: 0, path: pair.names[0], query, headers });
    await read({}, [["offset", "-1"]]);
    expect(pair.result.unexplained).toEqual([]);
    content = "new";
    await read({ "If-None-Match": { tag: 0 } }, []);
    expect(pair.result.unexplained.join("\n")).toContain('304 of "same", given with "old", for "new"');
    pair.close();
    servers.forEach((server) => server.close());
  });

  it("events are the same that carry the same, in whatever pieces, and others are not", () => {
    const answer = (...pieces) => ({
      status: 200,
      headers: { "content-type": "text/event-stream" },
      body: pieces.map((text) => `event: data\ndata:${text.split("\n").join("\ndata:")}\n\n`).join(""),
    });
    const found = (ours, theirs) => differences(
      { method: "GET", path: "d/x" }, answer(...ours), answer(...theirs), new Offsets(),
    );
    expect(found(["[1,2]", "[3]"], ["[1]", "[2,3]"])).toEqual([]);
    expect(found(["\n\n[1]"], ["\n\n", "[1]"])).toEqual([]);
    expect(found(["ab"], ["a", "b"])).toEqual([]);
    for (const [ours, theirs] of [[["[1]"], ["[2]"]], [["ab"], ["a"]], [["[1]"], []], [["[1]x"], ["[1]"]]]) {
      expect(found(ours, theirs)).toHaveLength(1);
    }
  });
});
