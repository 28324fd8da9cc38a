// Where Chromium is: for the browser tests and for `make screenshots`.
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'

const NAMES = ['chromium', 'chromium-browser', 'google-chrome']

/**
 * What CHROMIUM says, or the first Chromium on the PATH; null when there is none.
 *
 * @returns {string | null}
 */
export function findChromium() {
  const folders = (process.env.PATH ?? '').split(delimiter)
  const candidates = NAMES.flatMap((name) => folders.map((folder) => join(folder, name)))
  return [process.env.CHROMIUM ?? '', ...candidates].find((path) => path !== '' && executable(path)) ?? null
}

/** @param {string} path */
function executable(path) {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
