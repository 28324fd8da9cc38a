// Makes the pages that the tests open, from invented profiles with known counts
// (crates/report/examples/sample_pages.rs), and says where the browser is.
import { execFileSync } from 'node:child_process'
import { accessSync, constants, mkdirSync } from 'node:fs'
import { delimiter, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = resolve(fileURLToPath(new URL('../../..', import.meta.url)))

/** Pages, and the screenshots the tests leave for people to look at. */
export const FOLDER = join(ROOT, 'target', 'browser')

/** The first Chromium on the PATH, or what CHROMIUM says; null when there is none. */
export function findChromium(): string | null {
  const folders = (process.env.PATH ?? '').split(delimiter)
  const names = ['chromium', 'chromium-browser', 'google-chrome']
  const candidates = names.flatMap((name) => folders.map((folder) => join(folder, name)))
  for (const path of [process.env.CHROMIUM, ...candidates]) {
    if (!path) continue
    try {
      accessSync(path, constants.X_OK)
      return path
    } catch {
      // Not here.
    }
  }
  return null
}

export default function setup(): void {
  if (!findChromium()) return
  mkdirSync(FOLDER, { recursive: true })
  // Without naming the package: then everything else is as `make build` has left it.
  const args = ['run', '--release', '--quiet', '--example', 'sample_pages']
  execFileSync('cargo', [...args, '--', FOLDER], { cwd: ROOT, stdio: 'inherit', timeout: 900_000 })
}
