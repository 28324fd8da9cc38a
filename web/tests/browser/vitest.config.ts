// Runs the report's page in a real browser; the pages are made once, before all tests.
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    root: dirname(fileURLToPath(import.meta.url)),
    globalSetup: './pages.ts',
    // One browser at a time: the machine may be small.
    fileParallelism: false,
    testTimeout: 180_000,
    hookTimeout: 180_000,
  },
})
