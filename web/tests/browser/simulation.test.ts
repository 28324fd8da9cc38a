// The page about simulated placements, in headless Chromium.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type BrowserContext, chromium, type Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { findChromium } from './chromium.mjs'
import { FOLDER } from './pages'

const browser = findChromium()

describe.skipIf(!browser)('simulated placements', () => {
  let context: BrowserContext
  let profile: string
  let complaints: string[] = []

  beforeAll(async () => {
    profile = mkdtempSync(join(tmpdir(), 'threadtalk-browser-'))
    context = await chromium.launchPersistentContext(profile, {
      executablePath: browser!,
      args: ['--no-sandbox', '--disable-background-networking', '--no-first-run', '--disable-gpu'],
      viewport: { width: 1560, height: 1100 },
      colorScheme: 'light',
    })
  })

  afterAll(async () => {
    await context?.close()
    rmSync(profile, { recursive: true, force: true })
  })

  afterEach(async () => {
    for (const page of context.pages()) await page.close()
    expect(complaints).toEqual([])
  })

  async function open(): Promise<Page> {
    const page = await context.newPage()
    complaints = []
    page.on('console', (message) => complaints.push(message.text()))
    page.on('pageerror', (error) => complaints.push(String(error)))
    await page.goto(pathToFileURL(join(FOLDER, 'simulated.html')).href)
    await page.waitForSelector('.simulated-served')
    return page
  }

  test('times have intervals, and plans within them are as fast', async () => {
    const page = await open()
    expect(await page.innerText('h1')).toBe('123,456,789 accesses of 8 threads, simulated on one machine')
    expect(await page.innerText('.command')).toBe('./app <8>')
    const rows = await page.locator('.simulated-times tbody tr').allInnerTexts()
    expect(rows[0]).toMatch(/scatter, first-touch\s+200 ms ± 3 %\s+20.00 J ± <1 %\s+36 % slower/)
    expect(rows[1]).toContain('as fast')
    expect(rows[2]).toContain('fastest')
    expect(await page.locator('.time-bar .whisker').count()).toBe(3)
  })

  test('bars are stacked by where accesses were served, and fill what they should', async () => {
    const page = await open()
    const widths = await page
      .locator('.shares')
      .evaluateAll((bars) =>
        bars.map((bar) => [...bar.querySelectorAll('rect')].map((part) => part.getBoundingClientRect().width)),
      )
    const whole = await page
      .locator('.shares')
      .first()
      .evaluate((bar) => bar.getBoundingClientRect().width)
    for (const bar of widths) expect(bar.reduce((a, b) => a + b, 0) / whole).toBeCloseTo(1, 2)
    expect(widths[2]![3]).toBe(0)
    expect(widths[0]![3]! / whole).toBeCloseTo(0.3, 2)
    const fills = await page
      .locator('.shares')
      .first()
      .locator('rect')
      .evaluateAll((parts) => parts.map((part) => getComputedStyle(part).fill))
    expect(new Set(fills).size).toBe(4)
  })

  test('controllers and links are drawn for each plan, thicker where they are busier', async () => {
    const page = await open()
    expect(await page.locator('.network').count()).toBe(3)
    const first = page.locator('.network').first()
    expect(await first.locator('circle').count()).toBe(4)
    const lines = await first
      .locator('line')
      .evaluateAll((all) => all.map((l) => Number(l.getAttribute('stroke-width'))))
    expect(lines).toHaveLength(4)
    expect(Math.max(...lines)).toBe(10)
    const last = page.locator('.network').last()
    const thin = await last.locator('line').evaluateAll((all) => all.map((l) => Number(l.getAttribute('stroke-width'))))
    expect(Math.max(...thin)).toBeLessThan(4)
    expect(await first.textContent()).toContain('node 060 %')
  })

  test('tables tell which plan helps which code and data', async () => {
    const page = await open()
    const code = await page.locator('.simulated-code tbody tr').first().innerText()
    expect(code).toMatch(/solve at solve.c:40\s+90.0 ms\s+60.0 ms\s+58.0 ms/)
    expect(await page.locator('.simulated-data .best').first().innerText()).toBe('1.00 ms')
    expect(await page.locator('.simulated-data > .wide tbody tr').count()).toBe(15)
    await page.click('.simulated-data summary')
    expect(await page.locator('.simulated-data details tbody tr').count()).toBe(5)
    await page.click('button:text-is("dark")')
    expect(await page.getAttribute('html', 'data-theme')).toBe('dark')
    await page.screenshot({ path: join(FOLDER, 'simulated.png'), fullPage: true })
  })
})
