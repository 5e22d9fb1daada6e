import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["suite.test.mjs", "differential/*.test.mjs", "clients/*.test.mjs"],
    testTimeout: 30_000,
    hookTimeout: 30_000,
    // The suite's tests are meant to run one after another, and each file has a server of its own.
    fileParallelism: false,
  },
});
