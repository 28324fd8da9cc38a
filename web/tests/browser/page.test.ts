// The generated page in headless Chromium, opened from disk: it renders, hovering and the switches
// work, it asks the network for nothing and has nothing to complain about.
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type BrowserContext, chromium, type Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { findChromium } from './chromium.mjs'
import { FOLDER } from './pages'

const browser = findChromium()
if (!browser) {
  console.warn('SKIPPED: no Chromium on the PATH (Debian: apt-get install chromium)')
}

const FLAGS = [
  '--no-sandbox',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-first-run',
  '--disable-gpu',
]

describe.skipIf(!browser)('report page', () => {
  let context: BrowserContext
  let profile: string
  /** What the page under test asked for and complained about. */
  let requests: string[]
  let complaints: string[]

  beforeAll(async () => {
    profile = mkdtempSync(join(tmpdir(), 'threadtalk-browser-'))
    context = await chromium.launchPersistentContext(profile, {
      executablePath: browser!,
      args: FLAGS,
      viewport: { width: 1560, height: 1100 },
      colorScheme: 'light',
    })
  })

  afterAll(async () => {
    await context?.close()
    rmSync(profile, { recursive: true, force: true })
  })

  async function open(name: string): Promise<Page> {
    const page = await context.newPage()
    requests = []
    complaints = []
    page.on('request', (request) => requests.push(request.url()))
    page.on('console', (message) => complaints.push(message.text()))
    page.on('pageerror', (error) => complaints.push(String(error)))
    const url = pathToFileURL(join(FOLDER, `${name}.html`)).href
    await page.goto(url)
    await page.waitForSelector('#matrix[data-plot]')
    return page
  }

  afterEach(async () => {
    for (const page of context.pages()) await page.close()
    // Only the page itself, and images that are part of it.
    expect(requests.filter((url) => !url.startsWith('data:'))).toHaveLength(1)
    expect(requests[0]).toMatch(/^file:/)
    expect(complaints).toEqual([])
  })

  interface Plot {
    x: number
    y: number
    cell: number
    cells: number
    bin: number
  }

  async function plot(page: Page): Promise<Plot> {
    return JSON.parse((await page.getAttribute('#matrix', 'data-plot'))!) as Plot
  }

  /** Puts the pointer on a cell and returns the tooltip's text. */
  async function hover(page: Page, row: number, column: number): Promise<string> {
    const { x, y, cell } = await plot(page)
    const position = { x: x + (column + 0.5) * cell, y: y + (row + 0.5) * cell }
    await page.hover('#matrix', { position })
    return page.innerText('#tooltip')
  }

  const picture = (page: Page): Promise<string> =>
    page.$eval('#matrix', (canvas) => (canvas as HTMLCanvasElement).toDataURL())

  const press = (page: Page, text: string): Promise<void> => page.click(`button:text-is("${text}")`)

  /** Number of different colours in the canvas. */
  const colours = (page: Page): Promise<number> =>
    page.$eval('#matrix', (element) => {
      const canvas = element as HTMLCanvasElement
      const { data } = canvas.getContext('2d')!.getImageData(0, 0, canvas.width, canvas.height)
      return new Set(new Uint32Array(data.buffer)).size
    })

  test('4 threads: verdict, cells, graph, machine', async () => {
    const page = await open('pairs4')
    expect(await page.innerText('#verdict')).toBe(
      '4 threads make 1.7 M cache-line transfers per second of the recorded run, >99 % of them within T0↔T2 ' +
        'and T1↔T3.',
    )
    expect(await page.locator('.reliability').count()).toBe(0)
    expect((await plot(page)).cells).toBe(4)
    expect(await colours(page)).toBeGreaterThan(20)
    expect(await page.locator('#graph .node').count()).toBe(4)
    expect(await page.locator('#graph .edge').count()).toBe(6)
    // Before and after, side by side.
    expect(await page.locator('#machine .box.pu').count()).toBe(8)
    expect(await page.locator('#machine .node').count()).toBe(8)
    expect(await page.locator('.threads tbody tr').count()).toBe(4)
    expect(await page.innerText('.communication .pattern')).toBe('Pattern: 2 groups of 2 threads (99 % sure).')
    // A run of one slice has nothing over time.
    expect(await page.locator('.communication svg').count()).toBe(0)
    await page.screenshot({ path: join(FOLDER, 'pairs4-light.png'), fullPage: true })
  })

  test('4 threads: hovering a cell gives its exact numbers and both names', async () => {
    const page = await open('pairs4')
    const text = await hover(page, 2, 0)
    expect(text).toContain('previous writer: T0 pairs4')
    expect(text).toContain('thread that takes: T2 worker-2')
    expect(text).toContain('1,235,567 transfers')
    expect(text).toContain('30 % of all')
    expect(await hover(page, 2, 3)).toContain('\n7 transfers')
    expect(await hover(page, 3, 0)).toContain('\n0 transfers')
    expect(await hover(page, 1, 1)).toBe('T1 worker-1 with itself: not counted')
    // The two threads stand out in the other drawings.
    await hover(page, 2, 0)
    // Before and after, two threads each.
    expect(await page.locator('#machine .node.on').count()).toBe(4)
    expect(await page.locator('#machine .bond.on').count()).toBe(2)
    expect(await page.locator('#graph .edge.on').count()).toBe(2)
    await page.mouse.move(5, 5)
    expect(await page.locator('#tooltip').isVisible()).toBe(false)
    expect(await page.locator('.on').count()).toBe(0)
  })

  test('arrow keys walk through the cells', async () => {
    const page = await open('pairs4')
    await page.focus('#matrix')
    // The first key selects the first cell.
    for (let i = 0; i < 3; i++) await page.keyboard.press('ArrowDown')
    expect(await page.innerText('#tooltip')).toContain('1,235,567 transfers')
    for (let i = 0; i < 3; i++) await page.keyboard.press('ArrowRight')
    expect(await page.innerText('#tooltip')).toContain('\n7 transfers')
    await page.keyboard.press('ArrowRight')
    expect(await page.innerText('#tooltip')).toContain('\n7 transfers')
  })

  test.each(['pairs4', 'grid256'])('%s: the log switch changes drawing and scale', async (name) => {
    const page = await open(name)
    const before = [await picture(page), await page.innerText('#scale')]
    expect(before[1]).toContain('linear scale')
    await press(page, 'log')
    const after = [await picture(page), await page.innerText('#scale')]
    expect(after[1]).toContain('log scale')
    expect(after[0]).not.toBe(before[0])
    await press(page, 'linear')
    expect(await picture(page)).toBe(before[0])
  })

  test('samples: how far amounts can be trusted comes before any of them', async () => {
    const page = await open('sampled4')
    const text = await page.innerText('.reliability')
    expect(text).toContain('Estimated, not counted: ')
    expect(text).toContain('Amounts rest on how long threads were seen waiting')
    const top = async (selector: string): Promise<number> => (await page.locator(selector).boundingBox())!.y
    expect(await top('.reliability')).toBeLessThan(await top('#verdict'))
    expect(await page.innerText('#verdict')).toContain('4 threads make some ')
    expect(await page.innerText('.verdict')).toContain('21 % of the communication is inferred')
    expect(await page.innerText('.measured')).toContain('sampled, 21 % inferred')
    await page.screenshot({ path: join(FOLDER, 'sampled4.png'), fullPage: true })
  })

  test('too few samples: no pattern and no large numbers of communication', async () => {
    const page = await open('few4')
    expect(await page.innerText('#verdict')).toContain('Not enough samples: only 1 of 12000 showed communication')
    const figures = await page.innerText('.figures')
    expect(figures).toContain('samples showed communication')
    expect(figures).not.toContain('/s')
    expect(figures).not.toContain('of the communication')
    expect(await page.innerText('.card.machine')).toContain('Computed from too few samples')
    expect(await page.innerText('.communication .pattern')).toBe('Pattern: not known, there are not enough samples.')
    await page.screenshot({ path: join(FOLDER, 'few4.png'), fullPage: true })
  })

  test('the kind switch shows other events', async () => {
    const page = await open('pairs4')
    const all = await picture(page)
    await press(page, 'overwrites')
    expect(await picture(page)).not.toBe(all)
    const text = await hover(page, 2, 0)
    expect(text).toContain('previous writer: T0 pairs4')
    expect(text).toContain('1,000 overwrites')
    await press(page, 'reads')
    expect(await hover(page, 2, 0)).toContain('1,234,567 reads')
    await press(page, 'invalidations')
    expect(await hover(page, 3, 1)).toContain('30 invalidations')
  })

  test('the placement switch moves the threads', async () => {
    const page = await open('pairs4')
    const places = (): Promise<(string | null)[]> =>
      page.$$eval('#machine .node', (nodes) => nodes.map((node) => node.getAttribute('transform')))
    const both = await places()
    expect(both.length).toBe(8)
    await press(page, 'after: locality')
    const after = await places()
    expect(after).toEqual(both.slice(4))
    await press(page, 'before: compact')
    expect(await places()).toEqual(both.slice(0, 4))
    expect(await places()).not.toEqual(after)
    const bars = await page.locator('.stackbar').allInnerTexts()
    expect(
      bars.map((bar) =>
        bar
          .split(/\s*\n\s*/)
          .join(' ')
          .trim(),
      ),
    ).toEqual(['33 % 67 %', '>99 %', '>99 %', '>99 %'])
    await press(page, 'before | after')
    expect(await places()).toEqual(both)
  })

  test('policies stand in the order of their costs, the bound last', async () => {
    const page = await open('pairs4')
    const table = await page.locator('.policies tbody tr').allInnerTexts()
    const cells = table.map((row) => row.split('\t').map((cell) => cell.trim()))
    expect(cells[0]![0]).toBe('locality')
    expect(cells[0]![6]).toBe('chosen')
    expect(cells[0]![3]).toBe('1.00')
    const ratios = cells.slice(0, -1).map((row) => Number(row[3]))
    expect(ratios).toEqual([...ratios].sort((a, b) => a - b))
    expect(cells.map((row) => row[0])).toContain('os')
    expect(cells[cells.length - 1]).toMatchObject({ 0: 'lower bound', 4: '1.00', 6: 'no placement costs less' })
    expect(await page.innerText('.shares .keys')).toMatch(/between packages, [0-9.]+ ns/)
  })

  test('the machine is walked with keys, and a thread picked on it filters the rest', async () => {
    const page = await open('shared16')
    const machine = page.locator('#machine svg').last()
    await machine.focus()
    await page.keyboard.press('ArrowRight')
    expect(await page.innerText('#tooltip')).toMatch(/^T0 /)
    await page.keyboard.press('ArrowRight')
    expect(await page.innerText('#tooltip')).toMatch(/^T\d+ /)
    expect(await page.innerText('#tooltip')).not.toMatch(/^T0 /)
    await page.keyboard.press('ArrowLeft')
    await page.keyboard.press('Enter')
    expect(await page.innerText('.filters')).toContain('T0 ↔ any thread')
    expect(await page.locator('#machine svg').last().locator('.node.on').count()).toBe(1)
    expect((await rows(page)).length).toBeLessThan(12)
    await page.keyboard.press('Escape')
    expect(await page.locator('.filters').isVisible()).toBe(false)
    expect((await rows(page)).length).toBe(12)
    // A line is both directions of a pair.
    const line = page.locator('#machine svg').last().locator('.bond').last()
    await line.dispatchEvent('click')
    expect(await page.innerText('.filters')).toMatch(/T\d+ ↔ T\d+/)
    expect(await page.locator('#machine .bond.on').count()).toBe(2)
  })

  test('the machine shows what is selected', async () => {
    const page = await open('shared16')
    const note = (): Promise<string> => page.locator('#machine .note').last().innerText()
    const all = await note()
    // The counters: each of four threads reads its neighbour's.
    await page.click('.lines > .wide tbody tr:first-child .name button')
    expect(await note()).toMatch(/^Lines: all 4 pairs of threads with transfers \(RAW \+ WAW\) selected\./)
    await page.click('.filters .chip')
    expect(await note()).toBe(all)
  })

  test('threads by cluster', async () => {
    const page = await open('server128')
    const byId = await picture(page)
    await press(page, 'by cluster')
    expect(await picture(page)).not.toBe(byId)
    // Groups of eight, those of the same number modulo 16.
    const ids: number[] = []
    for (let i = 0; i < 16; i++) {
      const text = await hover(page, i, i)
      ids.push(Number(/^T(\d+)/.exec(text)![1]))
    }
    expect(new Set(ids.slice(0, 8).map((t) => t % 16)).size).toBe(1)
    expect(new Set(ids.slice(8).map((t) => t % 16)).size).toBe(1)
  })

  test.each(['laptop2', 'hybrid8', 'server128'])('%s: machines of all kinds, light and dark', async (name) => {
    const page = await open(name)
    // Nothing is wider than the page, and every box lies in the drawing.
    for (const width of [700, 1560]) {
      await page.setViewportSize({ width, height: 1100 })
      // Drawings follow the page's width a frame later, and the browser adds scroll bars when it has laid out.
      const wide = (): Promise<number> => page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
      await expect.poll(wide, { timeout: 60_000 }).toBeLessThanOrEqual(0)
      await page.screenshot({ path: join(FOLDER, `${name}-${width}-light.png`), fullPage: true })
    }
    await press(page, 'dark')
    await page.screenshot({ path: join(FOLDER, `${name}-1560-dark.png`), fullPage: true })
  })

  test('256 threads: renders, and hovering is exact in either order', async () => {
    const page = await open('grid256')
    expect(await plot(page)).toMatchObject({ cells: 256, bin: 1 })
    expect(await page.locator('#machine .node').count()).toBe(256)
    expect(await page.locator('#graph .node').count()).toBe(256)
    // Grid cell 0 is thread 11, its right neighbour thread 48, the one below thread 91.
    const neighbour = await hover(page, 48, 11)
    expect(neighbour).toContain('previous writer: T11 worker-11')
    expect(neighbour).toContain('thread that takes: T48 worker-48')
    expect(neighbour).toContain('\n22,000 transfers')
    expect(await hover(page, 91, 11)).toContain('\n5,500 transfers')
    expect(await hover(page, 200, 0)).toContain('\n100 transfers')
    const byId = await picture(page)
    await press(page, 'by place')
    expect(await picture(page)).not.toBe(byId)
    const spot = await page.$eval('#matrix', (canvas) => canvas.getAttribute('data-plot'))
    expect(JSON.parse(spot!)).toMatchObject({ cells: 256 })
    await page.screenshot({ path: join(FOLDER, 'grid256-light.png'), fullPage: true })
  })

  test('1200 threads: cells sum several threads and say so', async () => {
    const page = await open('crowd1200')
    const { cells, bin } = await plot(page)
    expect(bin).toBeGreaterThan(1)
    expect(cells).toBe(Math.ceil(1200 / bin))
    expect(await page.innerText('#scale')).toContain(`a cell sums ${bin} × ${bin} threads`)
    const text = await hover(page, 0, 0)
    expect(text).toContain(`T0 … T${bin - 1} (${bin} threads)`)
    // 0→1, 1→2, … inside the first bin: 1000, 1001, …
    const inner = Array.from({ length: bin - 1 }, (_, i) => 1000 + i).reduce((a, b) => a + b, 0)
    expect(text).toContain(`\n${inner.toLocaleString('en-US')} transfers`)
    // 150 threads on a PU are one circle; a ring dealt out in turn stays nowhere within one.
    expect(await page.locator('#machine svg').first().locator('.node').count()).toBe(8)
    const notes = await page.locator('#machine .note').allInnerTexts()
    expect(notes[0]).toContain('0 % stays within')
    expect(notes[1]).toContain('>99 % stays within')
    await page.locator('#machine svg').first().locator('.node').first().hover()
    expect(await page.innerText('#tooltip')).toContain('150 threads (150)')
    expect(await page.innerText('.policies')).toContain('Left out, because they take long')
  })

  test('1,024 threads on 640 PUs: every thread has its place, lines are bounded, large pictures scroll', async () => {
    const page = await open('many1024')
    expect(await page.locator('#machine svg').count()).toBe(1)
    expect(await page.locator('#machine .node').count()).toBe(1024)
    expect(await page.locator('#machine .bond').count()).toBe(1200)
    expect(await page.innerText('#machine .note')).toMatch(
      /^Lines: the 1,200 strongest of 1,984 pairs of threads, \d+ % of the transfers/,
    )
    const pan = page.locator('#machine .pan')
    expect(await pan.evaluate((e) => e.scrollWidth > e.clientWidth)).toBe(true)
    expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0)
    await press(page, 'before | after')
    expect(await page.locator('#machine .node').count()).toBe(2048)
    await page.screenshot({ path: join(FOLDER, 'many1024-light.png'), fullPage: true })
  })

  test('the table sorts', async () => {
    const page = await open('hub16')
    const first = (): Promise<string> => page.innerText('.threads tbody tr:first-child td:first-child')
    expect(await first()).toBe('T0')
    await press(page, 'takes')
    expect(await first()).toBe('T15')
    await press(page, 'takes')
    expect(await first()).toBe('T0')
    await page.screenshot({ path: join(FOLDER, 'hub16-light.png'), fullPage: true })
  })

  test('no communication, no machine: still a report', async () => {
    const page = await open('silent3')
    expect(await page.innerText('#verdict')).toContain('do not communicate through memory')
    expect(await page.innerText('.warnings')).toContain('2 child processes (fork, posix_spawn) ran unprofiled;')
    expect(await page.innerText('.processes tbody')).toMatch(/7\s+\.\/helper -v\s+processes\/1-helper\.tt/)
    expect(await page.locator('#machine').count()).toBe(0)
    expect(await hover(page, 0, 1)).toContain('\n0 transfers')
  })

  const rows = (page: Page): Promise<string[]> => page.locator('.lines > .wide tbody tr').allInnerTexts()

  /** Clicks a cell of the matrix. */
  async function click(page: Page, row: number, column: number): Promise<void> {
    await hover(page, row, column)
    const { x, y, cell } = await plot(page)
    await page.click('#matrix', { position: { x: x + (column + 0.5) * cell, y: y + (row + 0.5) * cell } })
  }

  test('hot lines: bytes, code and shares', async () => {
    const page = await open('shared16')
    expect(await page.locator('.communication svg polyline').count()).toBe(2)
    const advice = await page.locator('.detail.advice').first().innerText()
    expect(advice).toContain('False sharing on counters (app): 88 % of the transfers, one line')
    const first = (await rows(page))[0]!
    for (const text of [
      'counters+0x0..0x40 (app)',
      '0x604000, static',
      'count.c:31',
      'bump(long*)',
      '40,000',
      '4,000',
      '88 %',
      '100 % false',
    ]) {
      expect(first).toContain(text)
    }
    expect((await rows(page))[1]).toContain('100 % true')
    expect((await rows(page))[1]).toContain('exact')
    const code = await page.locator('.flows tbody tr').allInnerTexts()
    expect(code.length).toBe(4)
    expect(code[1]).toMatch(/push\(item&&\)[\s\S]*5,000[\s\S]*100 % true[\s\S]*pop\(\)/)
    // Four threads write 8 bytes each, and read them.
    const picture = page.locator('.bytes').first()
    expect(await picture.getAttribute('aria-label')).toBe('bytes written: 0–31; read: 0–31')
    expect(await picture.locator('.writers').count()).toBe(4)
    await picture.hover({ position: { x: 4 * 9 + 2, y: 4 } })
    expect(await page.innerText('#tooltip')).toBe('byte 9\nwritten by T2\nread by T2')
    expect((await rows(page)).length).toBe(12)
    await press(page, 'Show more lines')
    expect((await rows(page)).length).toBe(32)
    await page.screenshot({ path: join(FOLDER, 'shared16-light.png'), fullPage: true })
  })

  test('a click on a line filters the matrix, and lifting the filter restores it', async () => {
    const page = await open('shared16')
    const whole = await picture(page)
    expect(await hover(page, 5, 0)).toContain('5,000 transfers')
    await page.mouse.move(5, 5)
    await page.click('.lines > .wide tbody tr:first-child .name button')
    expect(await hover(page, 2, 1)).toContain('\n11,000 transfers (RAW + WAW)\n25 % of all')
    expect(await hover(page, 5, 0)).toContain('\n0 transfers')
    expect(await page.innerText('.filters')).toContain('counters+0x0..0x40 (app)')
    const flows = await page.locator('.flows tbody tr').allInnerTexts()
    expect(flows.length).toBe(2)
    expect(flows[0]).toContain('had written 0–31')
    expect(flows[1]).toContain('overwrote 0–31')
    expect(flows[0]).toContain('in worker(int) at /home/user/work/count.c:40')
    await page.click('.filters .chip')
    await page.mouse.move(5, 5)
    expect(await picture(page)).toBe(whole)
    expect(await page.locator('.filters').isVisible()).toBe(false)
  })

  test('a click on a cell filters the lines and their code', async () => {
    const page = await open('shared16')
    await click(page, 7, 6)
    const picked = await rows(page)
    expect(picked[0]).toContain('0x7f0000001000')
    expect(picked.some((row) => row.includes('counters'))).toBe(false)
    expect(await page.innerText('.filters')).toContain('T6 → T7')
    expect(await page.innerText('.flows')).toContain('libc.so.6+0x99')
    // The same cell again lifts the filter.
    await click(page, 7, 6)
    expect((await rows(page))[0]).toContain('counters')
    await click(page, 2, 1)
    expect((await rows(page)).length).toBe(1)
    expect((await rows(page))[0]).toContain('10,000')
    await page.click('.lines > .wide tbody tr:first-child .name button')
    expect(await page.innerText('.flows')).toContain('had written 0–7')
  })

  test('true, false and total sharing', async () => {
    const page = await open('shared16')
    await press(page, 'true')
    expect(await hover(page, 2, 1)).toContain('\n0 transfers')
    expect(await hover(page, 5, 0)).toContain('\n5,000 transfers')
    expect((await rows(page))[0]).toContain('queue')
    await press(page, 'false')
    expect(await hover(page, 2, 1)).toContain('\n11,000 transfers')
    expect((await rows(page)).length).toBe(1)
    await press(page, 'total')
    expect(await hover(page, 5, 0)).toContain('\n5,000 transfers')
    await press(page, 'invalidations')
    expect(await page.locator('.choice[aria-label="Sharing"]').isVisible()).toBe(false)
  })

  test('time: the sliders and dragging cut the matrix', async () => {
    const page = await open('shared16')
    const strip = async (): Promise<{ x: number; width: number; bins: number; most: number }> =>
      JSON.parse((await page.getAttribute('#timeline', 'data-plot'))!)
    expect(await strip()).toMatchObject({ bins: 40, most: 4 * 550 + 60 / 2 })
    // The first half: only the queue, and half of the heap's lines.
    await page.getByLabel('To', { exact: true }).fill('20')
    expect(await hover(page, 2, 1)).toContain('\n0 transfers')
    expect(await hover(page, 5, 0)).toContain('\n5,000 transfers')
    expect(await hover(page, 7, 6)).toContain('\n600 transfers')
    // Half of the slices, with less than half of the work.
    expect(await page.innerText('.filters')).toContain('0.0 % to 45.3 %')
    await page.click('.filters .chip')
    expect(await hover(page, 2, 1)).toContain('\n11,000 transfers')
    // Drag over the last quarter.
    const { x, width } = await strip()
    const canvas = page.locator('#timeline')
    await canvas.scrollIntoViewIfNeeded()
    const box = (await canvas.boundingBox())!
    const at = (share: number): [number, number] => [box.x + x + width * share, box.y + 40]
    await page.mouse.move(...at(0.755))
    await page.mouse.down()
    await page.mouse.move(...at(0.9))
    await page.mouse.move(...at(0.99))
    expect(await page.innerText('#tooltip')).toContain('2,200 transfers (RAW + WAW) (false sharing)')
    await page.mouse.up()
    // Nine slices, which begin nearest to where dragging began.
    expect(await page.innerText('.sliders output')).toBe('75.4 % to 100.0 %')
    expect(await hover(page, 2, 1)).toContain('\n4,950 transfers')
    expect(await hover(page, 5, 0)).toContain('\n0 transfers')
    // A picked cell has bars of its own.
    await click(page, 2, 1)
    expect(await strip()).toMatchObject({ bins: 40, most: 550 })
  })

  test('1,024 threads, 100,001 lines, 300 slices: moderate, fluid and exact', async () => {
    expect(statSync(join(FOLDER, 'lines1024.html')).size).toBeLessThan(4_000_000)
    const page = await open('lines1024')
    const { bin } = await plot(page)
    expect(await page.innerText('.lines > .note')).toContain('200 of 100,001 lines')
    expect((await rows(page))[0]).toContain('3,072,000')
    await page.click('.lines > .wide tbody tr:first-child .name button')
    const events = (bin - 1) * 3000
    expect(await hover(page, 0, 0)).toContain(`\n${events.toLocaleString('en-US')} transfers`)
    await click(page, 0, 0)
    expect(await page.locator('.filters .chip').count()).toBe(2)
    await press(page, 'dark')
    await page.screenshot({ path: join(FOLDER, 'lines1024-dark.png'), fullPage: true })
  })

  test('pairs without direction', async () => {
    const page = await open('undirected4')
    expect(await page.innerText('#verdict')).toContain('4 threads meet on cache lines 576 times per second')
    expect(await hover(page, 0, 1)).toContain('\n500 pairs')
    expect(await hover(page, 1, 0)).toContain('\n500 pairs')
    expect(await page.locator('.choice[aria-label="Events"]').count()).toBe(0)
  })

  test.each(['pairs4', 'grid256', 'shared16'])('%s: dark colours', async (name) => {
    const page = await open(name)
    const background = (): Promise<string> => page.$eval('body', (body) => getComputedStyle(body).backgroundColor)
    const light = [await background(), await picture(page)]
    await press(page, 'dark')
    const dark = [await background(), await picture(page)]
    expect(dark[0]).toBe('rgb(18, 20, 23)')
    expect(dark[0]).not.toBe(light[0])
    expect(dark[1]).not.toBe(light[1])
    await page.screenshot({ path: join(FOLDER, `${name}-dark.png`), fullPage: true })
  })
})
