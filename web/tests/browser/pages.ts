// Makes the pages that the tests open, from invented profiles with known counts
// (crates/report/examples/sample_pages).
import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findChromium } from './chromium.mjs'

const ROOT = resolve(fileURLToPath(new URL('../../..', import.meta.url)))

/** Pages, and the screenshots the tests leave for people to look at. */
export const FOLDER = join(ROOT, 'target', 'browser')

export default function setup(): void {
  if (!findChromium()) return
  mkdirSync(FOLDER, { recursive: true })
  // Without naming the package: then everything else is as `make build` has left it.
  const args = ['run', '--release', '--quiet', '--example', 'sample_pages']
  execFileSync('cargo', [...args, '--', FOLDER], { cwd: ROOT, stdio: 'inherit', timeout: 900_000 })
}
