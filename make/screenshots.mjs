// `make screenshots`: the pictures in docs/images/, taken from real report pages in headless Chromium.
//
// Records a program, writes its page as `threadtalk report --html` does, opens the page from disk and
// photographs its top. Fails when a picture is larger than MAX_BYTES, because readers download it.
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { findChromium } from '../web/tests/browser/chromium.mjs'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const THREADTALK = join(ROOT, 'target/release/threadtalk')
const IMAGES = join(ROOT, 'docs/images')
const MAX_BYTES = 300_000
const VIEWPORT = { width: 1200, height: 950 }
/** Two packages with two L3 caches each: small enough to draw, large enough to show levels. */
const MACHINE = 'pack:2 l3:2 core:4 pu:2'

// playwright-core is installed in web/, where the browser tests use it.
const { chromium } = createRequire(join(ROOT, 'web/package.json'))('playwright-core')

/** Records the example in `folder` and returns the path of its page. */
function makePage(folder) {
  const run = (command, ...args) => execFileSync(command, args, { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] })
  run('cc', '-O1', '-g', '-pthread', join(ROOT, 'examples/counters.c'), '-o', 'counters')
  run(THREADTALK, 'record', '--exact', '-o', 'counters.tt', '--', './counters')
  run(THREADTALK, 'report', 'counters.tt', '--on', MACHINE, '--html', 'counters.html')
  return join(folder, 'counters.html')
}

async function photograph(page, picture) {
  const executablePath = findChromium()
  if (!executablePath) throw new Error('no Chromium on the PATH (Debian: apt-get install chromium)')
  const browser = await chromium.launch({
    executablePath,
    args: ['--no-sandbox', '--disable-background-networking', '--disable-gpu'],
  })
  try {
    const view = await browser.newPage({ viewport: VIEWPORT, colorScheme: 'light' })
    await view.goto(pathToFileURL(page).href)
    await view.waitForSelector('#matrix[data-plot]')
    await view.screenshot({ path: picture })
  } finally {
    await browser.close()
  }
}

const folder = mkdtempSync(join(tmpdir(), 'threadtalk-screenshots-'))
try {
  mkdirSync(IMAGES, { recursive: true })
  const picture = join(IMAGES, 'report.png')
  await photograph(makePage(folder), picture)
  const { size } = statSync(picture)
  if (size > MAX_BYTES) throw new Error(`${picture} has ${size} bytes, more than ${MAX_BYTES}`)
  console.log(`${picture}: ${size} bytes`)
} finally {
  rmSync(folder, { recursive: true, force: true })
}
