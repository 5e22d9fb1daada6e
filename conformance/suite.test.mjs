// The public suite, with subscriptions, against a server of its own.
import { runConformanceTests } from "@durable-streams/server-conformance-tests";
import { afterAll, beforeAll, describe } from "vitest";

import { startServer } from "./server.mjs";

describe("highwater", () => {
  const options = { baseUrl: "", longPollTimeoutMs: 500, subscriptions: true };
  let server;

  beforeAll(async () => {
    server = await startServer();
    options.baseUrl = server.baseUrl;
  });
  afterAll(async () => server?.stop());

  runConformanceTests(options);
});
