// What the page says about objects, in headless Chromium: causes, the table, the map of bytes, before
// and after.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type BrowserContext, chromium, type Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { findChromium } from './chromium.mjs'
import { FOLDER } from './pages'

const browser = findChromium()

describe.skipIf(!browser)('objects', () => {
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

  const press = (page: Page, text: string): Promise<void> => page.click(`button:text-is("${text}")`)

  const objects = (page: Page): Promise<string[]> => page.locator('.objects > .wide tbody tr').allInnerTexts()

  test('causes come first, with the code on both sides and a way to the object', async () => {
    const page = await open('shared16')
    const first = page.locator('.causes details').first()
    expect(await first.getAttribute('open')).toBe('')
    expect(await first.innerText()).toMatch(/false sharing[\s\S]*counters \(app\)[\s\S]*count\.c:31/)
    expect(await page.locator('.byte-map').count()).toBe(0)
    await first.locator('.chip').click()
    expect(await page.innerText('.object-detail h3')).toBe('Who uses which bytes of counters (app)')
    await page.locator('.causes').screenshot({ path: join(FOLDER, 'shared16-causes-light.png') })
  })

  test('objects: the table sorts, and the one that is chosen shows who uses its bytes', async () => {
    const page = await open('shared16')
    const list = await objects(page)
    expect(list.length).toBe(3)
    expect(list[0]).toMatch(/counters \(app\)\s+static\s+–\s+–\s+T1–T4\s+44,000\s+88 %\s+100 %/)
    expect(list[2]).toMatch(
      /allocated in fill\(queue&\) at queue\.cc:9\s+heap, called from main at main\.cc:40\s+1,920\s+30\s+freed after 20 ms/,
    )
    await page.click('.objects th button:text-is("bytes")')
    expect((await objects(page))[0]).toContain('queue.cc:9')
    await page.click('.objects th button:text-is("object")')
    expect((await objects(page))[0]).toContain('queue.cc:9')
    await page.click('.objects th button:text-is("events")')
    expect(await page.getAttribute('.objects th:nth-child(5)', 'aria-sort')).toBe('descending')
    expect(await page.locator('.byte-map').count()).toBe(0)
    // By keyboard.
    await page.focus('.objects .name button')
    await page.keyboard.press('Enter')
    const map = page.locator('.byte-map')
    expect(await map.getAttribute('aria-label')).toBe(
      'T1 writes bytes 0–7, reads bytes 0–7; T2 writes bytes 8–15, reads bytes 8–15; ' +
        'T3 writes bytes 16–23, reads bytes 16–23; T4 writes bytes 24–31, reads bytes 24–31',
    )
    expect(await map.locator('.write').count()).toBe(4)
    await map.locator('.write').nth(1).hover()
    const tip = await page.innerText('#tooltip')
    expect(tip).toBe(
      'T2, bytes 8–15\nwritten in 12,000 events\ncount.c:31 bump(long*)\nread in 10,000 events\ncount.c:31 bump(long*)',
    )
    await page.screenshot({ path: join(FOLDER, 'shared16-object-light.png'), fullPage: true })
    // On to its line.
    await page.click('.object-detail .chip')
    expect(await page.innerText('.filters')).toContain('counters+0x0..0x40 (app)')
    // Another one, with a line of its own chosen.
    await page.click('.objects tr:nth-child(3) .name button')
    expect(await page.locator('.byte-map .write').count()).toBe(1)
    const choices = page.locator('.object-detail .choice button')
    expect(await choices.count()).toBe(9)
    await choices.nth(1).click()
    expect(await page.innerText('.object-detail tbody')).toMatch(/T6\s+writes\s+0–63\s+libc\.so\.6\+0x99\s+40/)
    await page.click('.objects tr:nth-child(3) .name button')
    expect(await page.locator('.byte-map').count()).toBe(0)
  })

  test('10,002 objects: the first of them, and it says so', async () => {
    const page = await open('lines1024')
    expect(await page.innerText('.objects > .note')).toContain('200 of 10,001 objects')
    expect((await objects(page)).length).toBe(10)
    await press(page, 'Show more objects')
    expect((await objects(page)).length).toBe(50)
    await page.click('.objects tr:nth-child(1) .name button')
    expect(await page.innerText('.object-detail')).toContain('and 104 more threads with fewer events')
    await press(page, 'dark')
    await page.locator('.objects').screenshot({ path: join(FOLDER, 'lines1024-object-dark.png') })
  })

  test('before and after: what became of each object', async () => {
    const page = await open('fixed16')
    expect(await page.innerText('.changes .detail')).toBe(
      'The false sharing on counters (app) (88 % of all events) is gone.',
    )
    const rows = await page.locator('.changes tbody tr').allInnerTexts()
    expect(rows.length).toBe(3)
    expect(rows[0]).toMatch(/counters \(app\)\s+44,000\s+0\s+44,000\s+0\s+gone/)
    expect(rows[1]).toMatch(/queue \(app\)\s+5,000\s+5,000\s+0\s+0\s+about the same/)
    await page.locator('.changes').screenshot({ path: join(FOLDER, 'fixed16-changes-light.png') })
    const other = await open('shared16')
    expect(await other.locator('.changes').count()).toBe(0)
  })
})
