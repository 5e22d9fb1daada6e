import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["suite.test.mjs"],
    testTimeout: 30_000,
    hookTimeout: 30_000,
    // One server for the suite: its tests are meant to run one after another.
    fileParallelism: false,
  },
});
