// What the page says about pages of memory, in headless Chromium: advice, nodes, the map and its filters.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type BrowserContext, chromium, type Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { findChromium } from './chromium.mjs'
import { FOLDER } from './pages'

const browser = findChromium()

describe.skipIf(!browser)('memory', () => {
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

  async function open(name: string): Promise<Page> {
    const page = await context.newPage()
    complaints = []
    page.on('console', (message) => complaints.push(message.text()))
    page.on('pageerror', (error) => complaints.push(String(error)))
    await page.goto(pathToFileURL(join(FOLDER, `${name}.html`)).href)
    await page.waitForSelector('#matrix[data-plot]')
    return page
  }

  interface Plot {
    x: number
    y: number
    line: number
    lines: number
    column: number
    columns: number
  }

  const plot = async (page: Page): Promise<Plot> =>
    JSON.parse((await page.getAttribute('.page-map', 'data-plot'))!) as Plot
  const picture = (page: Page): Promise<string> =>
    page.$eval('.page-map', (canvas) => (canvas as HTMLCanvasElement).toDataURL())

  test('pages of many objects: advice, nodes, map and a closer look', async () => {
    const page = await open('pages16')
    const card = page.locator('.card.memory')
    expect(await card.locator('details').first().innerText()).toMatch(/used from afar.*grid \(app\)/s)
    expect(await card.locator('.nodes tbody tr').count()).toBe(2)
    expect(await card.locator('.nodes tbody tr').first().innerText()).toMatch(/node 0\s+T0–T7/)
    const { x, y, line, column, columns, lines } = await plot(page)
    expect([columns, lines > 60]).toEqual([16, true])
    // The first part of the grid is the first thread's.
    await page.hover('.page-map', { position: { x: x + column / 2, y: y + line / 2 } })
    const tip = await page.innerText('#tooltip')
    expect(tip).toMatch(/grid \(app\)/)
    expect(tip).toMatch(/on node 0/)
    expect(tip).toMatch(/T0 pages16: .* reads, .* writes/)
    await page.screenshot({ path: join(FOLDER, 'pages16-light.png'), fullPage: true })
    const before = await picture(page)
    await page.click('.page-map', { position: { x: x + column / 2, y: y + line / 2 } })
    expect(await picture(page)).not.toBe(before)
    expect(await card.innerText()).toMatch(/grid \(app\): 60,000 of 60,000 pages/)
    await page.click('.page-map', { position: { x: x + column / 2, y: y + 40 } })
    expect(await card.innerText()).toMatch(/grid \(app\): [\d,]+ of 60,000 pages/)
    await page.click('button:text-is("All objects")')
    expect(await picture(page)).toBe(before)
  })

  test('a thread that was picked filters the map', async () => {
    const page = await open('pages16')
    const before = await picture(page)
    const { x, column } = await plot(page)
    await page.click('.page-map', { position: { x: x + 3.5 * column, y: 8 } })
    expect(await page.innerText('.filters')).toMatch(/T3/)
    expect(await picture(page)).not.toBe(before)
    await page.click('.filters button')
    expect(await picture(page)).toBe(before)
  })

  test('there is nothing about memory where pages were not recorded', async () => {
    const page = await open('pairs4')
    expect(await page.locator('.card.memory').count()).toBe(0)
  })
})
