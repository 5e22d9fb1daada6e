// The Yjs package: its own server in front of this one, and two documents that become the same.
import { YjsProvider } from "@durable-streams/y-durable-streams";
import { YjsServer } from "@durable-streams/y-durable-streams/server";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Awareness } from "y-protocols/awareness";
import * as Y from "yjs";

import { until, withServer } from "./support.mjs";

const server = withServer();
let yjs;
beforeAll(async () => {
  yjs = new YjsServer({ port: 0, dsServerUrl: server.baseUrl });
  await yjs.start();
});
afterAll(async () => yjs?.stop());

it.each(["sse", "long-poll"])("documents become the same, and know who is there (%s)", async (liveMode) => {
  const open = () => {
    const doc = new Y.Doc();
    const awareness = new Awareness(doc);
    const baseUrl = `${yjs.url}/v1/yjs/test`;
    const provider = new YjsProvider({ doc, baseUrl, docId: `d-${liveMode}`, awareness, liveMode });
    return { doc, awareness, provider };
  };
  const one = open();
  let other;
  try {
    await until("the first is in step", () => one.provider.synced);
    one.doc.getText("t").insert(0, "hello");
    other = open();
    await until("the second has the text", () => other.doc.getText("t").toString() === "hello");
    other.doc.getText("t").insert(5, " world");
    for (let n = 0; n < 20; n += 1) one.doc.getMap("m").set(`k${n}`, n);
    await until("both have all", () =>
      one.doc.getText("t").toString() === "hello world" && other.doc.getMap("m").size === 20);
    one.awareness.setLocalState({ name: "one" });
    await until("one is seen by the other", () =>
      [...other.awareness.getStates().values()].some((state) => state.name === "one"));
    expect(Y.encodeStateVector(one.doc)).toEqual(Y.encodeStateVector(other.doc));
  } finally {
    for (const { provider, awareness, doc } of [one, other].filter(Boolean)) {
      provider.destroy();
      awareness.destroy();
      doc.destroy();
    }
  }
});
