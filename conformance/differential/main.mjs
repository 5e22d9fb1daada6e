// node differential/main.mjs [SEED] [COUNT]: compares, and prints what differs.
import { DurableStreamTestServer } from "@durable-streams/server";

import { IN_THE_LOG, startServer } from "../server.mjs";
import { compare } from "./run.mjs";

const [seed = "1", count = "2000"] = process.argv.slice(2);
const ours = await startServer(IN_THE_LOG);
const theirs = new DurableStreamTestServer({ port: 0, longPollTimeout: 500, webhooks: true });
await theirs.start();
try {
  const bases = [ours.baseUrl, theirs.url ?? theirs.baseUrl];
  const result = await compare({ seed: Number(seed), count: Number(count), bases });
  console.log(result.unexplained.join("\n"));
  console.log(JSON.stringify({ ...result, unexplained: result.unexplained.length }, null, 1));
  process.exitCode = result.unexplained.length > 0 ? 1 : 0;
} finally {
  await theirs.stop();
  await ours.stop();
}
