// The state package: a database that a stream makes, in two readers at once.
import { DurableStream } from "@durable-streams/client";
import { createStateSchema, MaterializedState } from "@durable-streams/state";
import { createStreamDB } from "@durable-streams/state/db";
import { expect, it } from "vitest";

import { until, withServer } from "./support.mjs";

const server = withServer();
const anything = { "~standard": { version: 1, vendor: "test", validate: (value) => ({ value }) } };
const schema = createStateSchema({
  users: { schema: anything, type: "user", primaryKey: "id" },
});

it.each(["sse", "long-poll"])("a database follows its stream (%s)", async (live) => {
  const url = server.url(`state/${live}`);
  const handle = await DurableStream.create({ url, contentType: "application/json" });
  const append = (event) => handle.append(JSON.stringify(event));
  await append(schema.users.insert({ value: { id: "1", name: "Ada" } }));
  const db = createStreamDB({ streamOptions: { url, contentType: "application/json" }, live, state: schema });
  try {
    await db.preload();
    expect(db.collections.users.get("1")).toMatchObject({ name: "Ada" });
    await append(schema.users.insert({ value: { id: "2", name: "Bo" } }));
    await append(schema.users.update({ value: { id: "1", name: "Ada L." } }));
    await until("the update", () => db.collections.users.get("1")?.name === "Ada L.");
    await append(schema.users.delete({ key: "2" }));
    await until("the delete", () => !db.collections.users.has("2"));
  } finally {
    db.close();
  }
  const state = new MaterializedState();
  const { stream } = await import("@durable-streams/client");
  for (const event of await (await stream({ url, live: false })).json()) state.apply(event);
  expect([...state.getType("user").values()]).toMatchObject([{ id: "1", name: "Ada L." }]);
});
