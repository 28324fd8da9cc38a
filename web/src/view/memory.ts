// How the threads use the pages of memory: what to change, nodes with their load before and after, a map
// of pages by thread, and the objects that lie on them.
import { type Data, threadName } from '../model/data'
import { threadList } from '../model/lines'
import { grouped, percent, short } from '../model/numbers'
import type { DataAdvice, DataPattern, MemoryNodes, MemoryObject, MemoryUse } from '../model/page-data'
import { type Band, bands, binaryBytes, threadsOf, type View } from '../model/pages'
import { colour, rampScale } from '../model/scale'
import type { Store } from '../state'
import { card, cssVariable, el, hideTip, prepare, showTip } from './dom'

/** Objects listed at first, and more for each press of the button. */
const ROWS = 10
/** Lines of the map at most, and their height. */
const LINES = 160
const HEIGHT = 520
const LEAST = 3
const GREATEST = 22
const LEFT = 250
const TOP = 22
/** A column is at least this wide. */
const COLUMN = 4

const PATTERNS: Record<DataPattern, string> = {
  packed: 'packed',
  remote_after_allocation: 'used from afar',
  alternating: 'in turns',
  read_by_all: 'read by all',
  sharers_apart: 'sharers apart',
  one_controller: 'one controller',
  hot_objects: 'hot objects',
}

export function memory(data: Data, store: Store): HTMLElement | null {
  const found = data.findings.memory
  if (!found || found.objects.length === 0) return null
  const section = card('Memory', 'memory')
  section.append(el('p', {}, found.text.join(' ')))
  const view = new MapView(data, found, store)
  section.append(...found.advice.map((advice) => entry(advice, () => view.show(advice.object_place))))
  if (found.nodes && found.nodes.numbers.length > 1) section.append(nodes(found, found.nodes))
  section.append(
    view.element,
    objects(found, (index) => view.show(index)),
  )
  return section
}

function entry(advice: DataAdvice, show: () => void): HTMLElement {
  const button = el('button', { type: 'button', class: 'chip' }, 'Show its pages')
  button.addEventListener('click', show)
  const summary = el(
    'summary',
    {},
    el('span', { class: 'badge' }, PATTERNS[advice.pattern]),
    ' ',
    el('b', {}, advice.title),
    ` ${percent(advice.share)} of the accesses. ${advice.gain}.`,
  )
  return el(
    'details',
    { open: advice.id === 'm1' ? '' : undefined },
    summary,
    el('p', {}, `${advice.evidence}.`),
    el('p', { class: 'change' }, advice.advice),
    button,
  )
}

/** The load of each node: what its threads access, what it serves, and what it would serve. */
function nodes(found: MemoryUse, { numbers, made, served, best, of_thread }: MemoryNodes): HTMLElement {
  const bar = (share: number, kind: string): HTMLElement => {
    const fill = el('i', { class: kind })
    fill.style.width = `${Math.min(100, share * 100)}%`
    return el('td', { class: 'load' }, el('div', { class: 'loadbar' }, fill), el('span', {}, percent(share)))
  }
  const rows = numbers.map((number, node) => {
    const threads = of_thread.flatMap((at, thread) => (at === node ? [thread] : []))
    return el(
      'tr',
      {},
      el('th', { scope: 'row' }, swatch(node), ` node ${number}`),
      el('td', {}, threads.length > 0 ? threadList(threads) : '–'),
      bar(made[node]!, ''),
      bar(served[node]!, 'before'),
      bar(best[node]!, 'after'),
    )
  })
  const titles = ['', 'threads', 'accesses made', 'served as pages lie', `served by '${found.best ?? ''}'`]
  const head = el('tr', {}, ...titles.map((title) => el('th', { scope: 'col' }, title)))
  return el('table', { class: 'nodes' }, el('thead', {}, head), el('tbody', {}, ...rows))
}

/** Colours that tell nodes apart. */
function nodeColour(node: number): string {
  const hue = (210 + node * 137.5) % 360
  return `hsl(${hue.toFixed(0)} 55% 52%)`
}

function swatch(node: number): HTMLElement {
  const mark = el('i', { class: 'swatch' })
  mark.style.background = nodeColour(node)
  return mark
}

/** Pages by threads on a canvas. */
class MapView {
  readonly element: HTMLElement
  private readonly canvas = el('canvas', { class: 'page-map', role: 'img', tabindex: 0 })
  private readonly title = el('span')
  private readonly back = el('button', { type: 'button', class: 'chip' }, 'All objects')
  private view: View = { object: null, from: 0, end: 0 }
  private drawn: Band[] = []
  private line = LEAST
  /** Where the last label ends. */
  private labelled = 0
  private columns = 1
  private column = COLUMN

  constructor(
    private readonly data: Data,
    private readonly found: MemoryUse,
    private readonly store: Store,
  ) {
    const notes = [
      'Lines: pages by address, columns: threads; the darker, the more accesses.',
      'Left: the node on which the pages lie. The frame marks the thread that touched them first.',
      'Choose a line to look closer, a thread to filter.',
    ]
    this.back.addEventListener('click', () => this.set({ object: null, from: 0, end: 0 }))
    const head = el('p', { class: 'note' }, this.back, ' ', this.title)
    const wrap = el('div', { class: 'wide' }, this.canvas)
    this.element = el('div', {}, el('h3', {}, 'Pages'), head, wrap, el('p', { class: 'note' }, notes.join(' ')))
    this.canvas.addEventListener('pointermove', (event) => this.point(event))
    this.canvas.addEventListener('pointerleave', hideTip)
    this.canvas.addEventListener('click', (event) => this.click(event))
    this.canvas.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') this.set({ object: null, from: 0, end: 0 })
    })
    new ResizeObserver(() => this.draw()).observe(wrap)
    store.on(['pick', 'scale', 'theme'], () => this.draw())
  }

  /** Shows the pages of an object. */
  show(object: number): void {
    this.set({ object, from: 0, end: this.data.pages[object]?.first.length ?? 0 })
    this.element.scrollIntoView({ block: 'nearest' })
  }

  private set(view: View): void {
    this.view = view
    this.draw()
  }

  private draw(): void {
    const width = this.canvas.parentElement?.clientWidth ?? 0
    if (width <= LEFT + COLUMN) return
    const threads = this.data.findings.threads.length
    const { state } = this.store
    const picked = state.pick && new Set([...state.pick.from, ...(state.pick.to ?? [])])
    this.columns = Math.min(threads, Math.floor((width - LEFT - 8) / COLUMN))
    this.column = Math.min(64, (width - LEFT - 8) / this.columns)
    const counted = (thread: number): boolean => !picked || picked.has(thread)
    this.drawn = bands(this.data.pages, this.view, LINES, this.columns, threads, counted)
    this.line = Math.max(LEAST, Math.min(GREATEST, HEIGHT / Math.max(1, this.drawn.length)))
    const g = prepare(this.canvas, width, TOP + this.line * this.drawn.length + 4)
    this.paint(g)
    const { object } = this.view
    const one = object === null ? null : this.found.objects[object]!
    this.back.hidden = one === null
    this.title.textContent = one ? `${one.name}: ${this.extent()}` : this.listed()
    this.canvas.setAttribute('aria-label', `Accesses to pages by thread: ${this.title.textContent}`)
    // Tests and people with developer tools find the lines with this.
    this.canvas.dataset.plot = JSON.stringify({
      x: LEFT,
      y: TOP,
      line: this.line,
      lines: this.drawn.length,
      column: this.column,
      columns: this.columns,
    })
  }

  private listed(): string {
    const { objects, objects_all } = this.found
    return `${grouped(objects.length)} of ${grouped(objects_all)} objects, most accesses first`
  }

  private extent(): string {
    const rows = this.data.pages[this.view.object!]!
    const pages = rows.size.slice(this.view.from, this.view.end).reduce((sum, n) => sum + n, 0)
    const each = rows.pagesPerRow === 1 ? '' : `; the closest look is ${grouped(rows.pagesPerRow)} pages a line`
    return `${grouped(pages)} of ${grouped(rows.pages)} pages${each}`
  }

  private paint(g: CanvasRenderingContext2D): void {
    const { theme, scale } = this.store.state
    const values = this.drawn.flatMap(({ reads, writes }) => [...reads].map((n, i) => n + writes[i]!))
    const used = values.filter((value) => value > 0)
    const most = used.reduce((a, b) => Math.max(a, b), 1)
    const least = used.reduce((a, b) => Math.min(a, b), most)
    const ramp = rampScale(least, most, scale)
    const { line, column, columns } = this
    const threads = this.data.findings.threads.length
    g.font = '11px system-ui, sans-serif'
    g.fillStyle = cssVariable('--muted')
    const step = Math.max(1, Math.ceil(34 / column))
    for (let c = 0; c < columns; c += step) {
      g.fillText(`T${threadsOf(c, columns, threads)[0]}`, LEFT + c * column + 1, TOP - 8)
    }
    let last = -1
    this.labelled = 0
    this.drawn.forEach((band, index) => {
      const y = TOP + index * line
      const gap = line > 6 ? 1 : 0
      g.fillStyle = band.home >= 0 ? nodeColour(band.home) : cssVariable('--cell-zero')
      g.fillRect(LEFT - 12, y, 8, line - gap)
      for (let c = 0; c < columns; c++) {
        const value = band.reads[c]! + band.writes[c]!
        g.fillStyle = value > 0 ? colour(ramp(value), theme) : cssVariable('--cell-zero')
        g.fillRect(LEFT + c * column, y, column - (column > 6 ? 1 : 0), line - gap)
      }
      if (band.touched >= 0) {
        const c = Math.min(columns - 1, Math.floor((band.touched * columns) / Math.max(1, threads)))
        g.strokeStyle = cssVariable('--alarm')
        g.strokeRect(LEFT + c * column + 0.5, y + 0.5, column - 2, Math.max(1, line - gap - 1))
      }
      if (this.view.object === null && band.object !== last) {
        g.fillStyle = cssVariable('--line')
        g.fillRect(0, y - 0.5, LEFT + columns * column, 1)
      }
      this.label(g, band, y, band.object !== last)
      last = band.object
    })
  }

  /** The object, or the address, where there is room. */
  private label(g: CanvasRenderingContext2D, band: Band, y: number, isFirst: boolean): void {
    const overview = this.view.object === null
    if (y < this.labelled || (overview && !isFirst)) return
    const first = this.data.pages[band.object]!.first[band.from]!
    const text = overview ? this.found.objects[band.object]!.name : `0x${(first * 4096).toString(16)}`
    g.fillStyle = cssVariable('--text')
    g.fillText(cutText(g, text, LEFT - 20), 0, y + Math.max(8, Math.min(this.line - 1, 11)))
    this.labelled = y + (overview ? 11 : 22)
  }

  /** The line and column under the pointer. */
  private at({ offsetX, offsetY }: MouseEvent): { band: Band; column: number } | null {
    const band = this.drawn[Math.floor((offsetY - TOP) / this.line)]
    const column = Math.floor((offsetX - LEFT) / this.column)
    return band && offsetY >= TOP ? { band, column: Math.min(this.columns - 1, column) } : null
  }

  private point(event: PointerEvent): void {
    const at = this.at(event)
    if (!at) {
      hideTip()
      return
    }
    const { band, column } = at
    const rows = this.data.pages[band.object]!
    const { nodes } = this.found
    const text = [
      this.found.objects[band.object]!.name,
      `${grouped(band.pages)} pages from 0x${(rows.first[band.from]! * 4096).toString(16)}`,
    ]
    if (nodes && nodes.numbers.length > 1) text.push(`on node ${nodes.numbers[band.home] ?? '–'}`)
    if (band.touched >= 0) text.push(`touched first by T${band.touched}`)
    if (column >= 0) {
      const { threads } = this.data.findings
      const [from, end] = threadsOf(column, this.columns, threads.length)
      const who = end - from === 1 ? threadName(threads[from]!) : `T${from}–T${end - 1}`
      text.push(`${who}: ${short(band.reads[column]!)} reads, ${short(band.writes[column]!)} writes`)
    }
    showTip(event.clientX, event.clientY, ...text)
  }

  private click(event: MouseEvent): void {
    const at = this.at(event)
    if (!at) {
      const column = Math.floor((event.offsetX - LEFT) / this.column)
      if (event.offsetY < TOP && column >= 0 && column < this.columns) this.pick(column)
      return
    }
    const { band } = at
    if (this.view.object === null) {
      this.show(band.object)
      return
    }
    const rows = this.data.pages[band.object]!.first.length
    const span = Math.max(32, Math.ceil((this.view.end - this.view.from) / 8))
    const middle = Math.floor((band.from + band.end) / 2)
    const from = Math.max(0, Math.min(rows - span, middle - Math.floor(span / 2)))
    this.set({ object: band.object, from, end: Math.min(rows, from + span) })
  }

  private pick(column: number): void {
    const [from, end] = threadsOf(column, this.columns, this.data.findings.threads.length)
    const threads = Array.from({ length: end - from }, (_, i) => from + i)
    this.store.set({ pick: { from: threads, to: null, both: true } })
  }
}

/** As much of a text as fits. */
function cutText(g: CanvasRenderingContext2D, text: string, width: number): string {
  if (g.measureText(text).width <= width) return text
  let end = text.length
  while (end > 1 && g.measureText(`${text.slice(0, end)}…`).width > width) end = Math.floor(end * 0.9)
  return `${text.slice(0, end)}…`
}

/** The objects: first touch against use. */
function objects(found: MemoryUse, show: (index: number) => void): HTMLElement {
  const several = (found.nodes?.numbers.length ?? 1) > 1
  const body = el('tbody')
  const more = el('button', { type: 'button', class: 'more' }, 'Show more objects')
  let shown = ROWS
  const draw = (): void => {
    body.replaceChildren(...found.objects.slice(0, shown).map((object, index) => row(found, object, index, show)))
    more.hidden = found.objects.length <= shown
  }
  more.addEventListener('click', () => {
    shown += 4 * ROWS
    draw()
  })
  draw()
  const titles: [string, boolean][] = [
    ['object', false],
    ['accesses', true],
    ['memory', true],
    ['reads', true],
    ['exclusive', true],
    ...(several ? ([['local', true]] as [string, boolean][]) : []),
    ['touched first by', false],
    ['used by', false],
  ]
  const head = titles.map(([title, numeric]) => el('th', { scope: 'col', class: numeric ? 'number' : '' }, title))
  const table = el('table', {}, el('thead', {}, el('tr', {}, ...head)), body)
  return el('div', { class: 'wide memory-objects' }, table, more)
}

function row(
  found: MemoryUse,
  object: MemoryObject,
  index: number,
  show: (index: number) => void,
): HTMLTableRowElement {
  const several = (found.nodes?.numbers.length ?? 1) > 1
  const { metrics } = object
  const share = (value: number | null): string => (value === null ? '–' : percent(value))
  const number = (text: string): HTMLElement => el('td', { class: 'number' }, text)
  const name = el('button', { type: 'button' }, object.name)
  name.addEventListener('click', () => show(index))
  const byNode = (shares: number[]): HTMLElement[] =>
    several
      ? [el('small', {}, shares.map((part, node) => `node ${found.nodes!.numbers[node]} ${percent(part)}`).join(', '))]
      : []
  const pages = object.held.reduce((sum, held) => sum + held, 0)
  const first = [...object.touched_by].sort((a, b) => a - b)
  return el(
    'tr',
    {},
    el('td', { class: 'name' }, name, el('small', {}, object.region || 'not known')),
    number(percent(object.share)),
    number(binaryBytes(object.bytes)),
    number(percent(object.reads)),
    number(share(several ? metrics.exclusivity : metrics.thread_exclusivity)),
    ...(several ? [number(share(metrics.local))] : []),
    el(
      'td',
      {},
      first.length > 0 ? threadList(first) : '–',
      ...byNode(object.held.map((held) => held / Math.max(1, pages))),
    ),
    el('td', {}, threadList(object.threads), ...byNode(object.used)),
  )
}
