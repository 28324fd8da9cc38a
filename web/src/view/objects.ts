// The objects that threads meet on: a table to sort and choose from, and for the one that is chosen
// a map of its bytes: which threads write and read them, from where.
import { scaleSqrt } from 'd3-scale'
import type { Data } from '../model/data'
import { threadList } from '../model/lines'
import { grouped, percent } from '../model/numbers'
import {
  byteMap,
  bytesOf,
  falseShare,
  LINE,
  lifetime,
  type MapRow,
  type ObjectKey,
  objectName,
  type Span,
  sorted,
  usesOf,
} from '../model/objects'
import type { HotObject, UseOfBytes, Uses } from '../model/page-data'
import type { Store } from '../state'
import { card, choice, el, hideTip, showTip, svg } from './dom'

/** Rows at first, and more for each press of the button. */
const ROWS = 10
/** Threads in a map, and uses listed below it. */
const THREADS = 24
const USES = 12
/** Size of a byte in the map, and of a row. */
const BYTE = 10
const HEIGHT = 18
const LEFT = 44

const COLUMNS: { key: ObjectKey; title: string; numeric: boolean }[] = [
  { key: 'name', title: 'object', numeric: false },
  { key: 'size', title: 'bytes', numeric: true },
  { key: 'blocks', title: 'blocks', numeric: true },
  { key: 'users', title: 'users', numeric: false },
  { key: 'events', title: 'events', numeric: true },
  { key: 'falsely', title: 'false sharing', numeric: true },
]

export function objects(data: Data, store: Store): HTMLElement | null {
  const found = data.findings.objects
  if (!found || found.list.length === 0) return null
  const section = card('Objects', 'objects')
  const body = el('tbody')
  const more = el('button', { type: 'button', class: 'more' }, 'Show more objects')
  const detail = el('div', { class: 'object-detail' })
  let by: ObjectKey = 'events'
  let descending = true
  let shown = ROWS
  const draw = (): void => {
    const order = sorted(found.list, by, descending)
    body.replaceChildren(...order.slice(0, shown).map((index) => row(found.list[index]!, index, store)))
    more.hidden = order.length <= shown
  }
  const choose = (): void => {
    const { object } = store.state
    const nodes = object === null ? [] : details(data, found.list[object]!, store)
    detail.replaceChildren(...nodes)
    for (const tr of body.rows) mark(tr, tr.dataset.object === `${object}`)
  }
  const heads = COLUMNS.map(({ key, title, numeric }) => {
    const button = el('button', { type: 'button' }, title)
    const head = el('th', { scope: 'col', class: numeric ? 'number' : '' }, button)
    button.addEventListener('click', () => {
      descending = by === key ? !descending : key !== 'name'
      by = key
      for (const other of heads) other.removeAttribute('aria-sort')
      head.setAttribute('aria-sort', descending ? 'descending' : 'ascending')
      draw()
    })
    return head
  })
  heads[4]!.setAttribute('aria-sort', 'descending')
  more.addEventListener('click', () => {
    shown += 4 * ROWS
    draw()
  })
  draw()
  choose()
  store.on(['object'], choose)
  const table = el('table', {}, el('thead', {}, el('tr', {}, ...heads)), body)
  section.append(el('p', { class: 'note' }, words(data)), el('div', { class: 'wide' }, table), more, detail)
  return section
}

function words({ findings }: Data): string {
  const { all, events, unknown, list } = findings.objects!
  const listed = list.reduce((sum, object) => sum + object.events, 0)
  const parts = [
    `${grouped(list.length)} of ${grouped(all)} objects, with ${percent(listed / Math.max(1, events + unknown))} of ` +
      'the reads and overwrites of what another thread wrote',
  ]
  if (unknown > 0) parts.push(`${grouped(unknown)} are on no known object`)
  return `${parts.join('; ')}. Choose an object to see who uses which of its bytes.`
}

function mark(row: HTMLTableRowElement, on: boolean): void {
  row.classList.toggle('on', on)
  row.querySelector('button')!.setAttribute('aria-pressed', `${on}`)
}

function row(object: HotObject, index: number, store: Store): HTMLTableRowElement {
  const pressed = store.state.object === index
  const name = el('button', { type: 'button', 'aria-pressed': `${pressed}` }, objectName(object))
  const of = object.element === '' ? '' : ` of ${object.element}`
  const called = object.callers[0] ? `, called from ${object.callers[0]}` : ''
  const tr = el(
    'tr',
    { class: pressed ? 'on' : '', 'data-object': index },
    el('td', { class: 'name' }, name, el('small', {}, `${object.region}${of}${called}`)),
    el('td', { class: 'number' }, object.bytes > 0 ? grouped(object.bytes) : '–'),
    el('td', { class: 'number' }, object.blocks > 0 ? grouped(object.blocks) : '–', el('small', {}, lifetime(object))),
    el('td', {}, threadList(object.threads)),
    el('td', { class: 'number' }, grouped(object.events), el('small', {}, percent(object.share))),
    el('td', { class: 'number' }, falseShare(object)),
  )
  tr.addEventListener('click', () => {
    store.set({ object: store.state.object === index ? null : index })
  })
  return tr
}

/** What is known of one object. */
function details(data: Data, object: HotObject, store: Store): Node[] {
  const heading = el('h3', {}, `Who uses which bytes of ${objectName(object)}`)
  const { uses } = object
  if (!uses || uses.bytes.length === 0) {
    return [heading, el('p', { class: 'note' }, 'Which of its bytes are used is not known.')]
  }
  const drawing = el('div')
  const listed = el('div', { class: 'wide' })
  let line: number | null = null
  const draw = (): void => {
    const of = usesOf(uses, line)
    drawing.replaceChildren(...map(of))
    listed.replaceChildren(table(of))
  }
  const options = [
    { value: 'all', text: uses.hottest.length > 1 ? 'all lines, one over the other' : 'its line' },
    ...(uses.hottest.length > 1 ? uses.hottest : []).map((text, rank) => ({ value: `${rank}`, text })),
  ]
  const lines = choice('Cache line', options, 'all', (value) => {
    line = value === 'all' ? null : Number(value)
    draw()
  })
  draw()
  const notes = [el('p', { class: 'note' }, ...toLines(data, uses, store))]
  if (uses.held < 0.995) {
    notes.push(el('p', { class: 'note' }, `The map holds ${percent(uses.held)} of the uses, the most frequent.`))
  }
  const how = object.usage_text.length > 0 ? [el('p', { class: 'usage' }, object.usage_text.join(' '))] : []
  return [heading, ...how, lines, drawing, key(), ...notes, listed]
}

/** Buttons that lead to the object's lines among the hot lines. */
function toLines({ findings }: Data, uses: Uses, store: Store): Node[] {
  const hot = findings.lines?.list ?? []
  const known = uses.hottest
    .map((address) => ({ address, rank: hot.findIndex((line) => line.address === address) }))
    .filter(({ rank }) => rank >= 0)
  if (known.length === 0) return []
  const buttons = known.map(({ address, rank }) => {
    const button = el('button', { type: 'button', class: 'chip' }, address)
    button.addEventListener('click', () => {
      store.set({ line: rank })
      document.querySelector('.card.lines')?.scrollIntoView({ block: 'start' })
    })
    return button
  })
  return [document.createTextNode('Its hottest lines: '), ...buttons]
}

function key(): HTMLElement {
  const entry = (variable: string, text: string): HTMLElement =>
    el('span', { class: 'key' }, el('span', { class: 'swatch', style: `background: var(${variable})` }), text)
  return el(
    'p',
    { class: 'keys' },
    entry('--alarm', 'had written or overwrites (upper half)'),
    entry('--bar-true', 'reads (lower half)'),
    'The fuller the colour, the more events.',
  )
}

/** Threads by bytes: written above, read below. */
function map(uses: UseOfBytes[]): Node[] {
  const { rows, more } = byteMap(uses, THREADS)
  const height = 20 + rows.length * HEIGHT
  const width = LEFT + LINE * BYTE
  const image = svg('svg', {
    class: 'byte-map',
    viewBox: `0 0 ${width} ${height}`,
    role: 'img',
    'aria-label': rows.map(aloud).join('; '),
    style: `max-width: ${width * 1.3}px`,
  })
  const most = Math.max(1, ...rows.flatMap(({ spans }) => spans.flatMap(({ writes, reads }) => [writes, reads])))
  const opacity = scaleSqrt([0, most], [0.25, 1])
  for (let byte = 0; byte < LINE; byte += 8) {
    image.append(svg('text', { x: LEFT + byte * BYTE + 1, y: 11 }, `${byte}`))
  }
  rows.forEach(({ thread, spans }, index) => {
    const y = 16 + index * HEIGHT
    image.append(svg('text', { x: 0, y: y + 12 }, `T${thread}`))
    image.append(svg('rect', { class: 'none', x: LEFT, y, width: LINE * BYTE, height: HEIGHT - 3 }))
    for (const span of spans) image.append(...box(thread, span, y, opacity, uses))
  })
  for (let byte = 0; byte <= LINE; byte += 8) {
    const x = LEFT + byte * BYTE
    image.append(svg('line', { class: 'tick', x1: x, x2: x, y1: 14, y2: height - 4 }))
  }
  image.addEventListener('pointerleave', hideTip)
  const note = more > 0 ? [el('p', { class: 'note' }, `and ${grouped(more)} more threads with fewer events`)] : []
  return [el('div', { class: 'wide' }, image), ...note]
}

function box(thread: number, span: Span, y: number, opacity: (n: number) => number, uses: UseOfBytes[]): SVGElement[] {
  const half = (HEIGHT - 3) / 2
  const at = { x: LEFT + span.first * BYTE, width: (span.end - span.first) * BYTE - 0.8, height: half }
  const parts: SVGElement[] = []
  const { writes, reads } = span
  if (writes > 0) parts.push(svg('rect', { ...at, y, class: 'write', 'fill-opacity': opacity(writes).toFixed(3) }))
  if (reads > 0)
    parts.push(svg('rect', { ...at, y: y + half, class: 'read', 'fill-opacity': opacity(reads).toFixed(3) }))
  const from = (does: UseOfBytes['does']): string[] => {
    const places = uses.filter(
      (use) => use.thread === thread && use.does === does && use.first < span.end && use.first + use.bytes > span.first,
    )
    return [...new Set(places.map((use) => use.at))].slice(0, 3)
  }
  for (const part of parts) {
    part.addEventListener('pointermove', ({ clientX, clientY }) => {
      const text = [`T${thread}, bytes ${bytesOf(span.first, span.end)}`]
      if (writes > 0) text.push(`written in ${grouped(writes)} events`, ...from('write').map((at) => `  ${at}`))
      if (reads > 0) text.push(`read in ${grouped(reads)} events`, ...from('read').map((at) => `  ${at}`))
      showTip(clientX, clientY, ...text)
    })
  }
  return parts
}

/** A row of the map in words. */
function aloud({ thread, spans }: MapRow): string {
  const set = (of: 'writes' | 'reads'): string =>
    spans
      .filter((span) => span[of] > 0)
      .map(({ first, end }) => bytesOf(first, end))
      .join(' ')
  const parts = [set('writes') && `writes bytes ${set('writes')}`, set('reads') && `reads bytes ${set('reads')}`]
  return `T${thread} ${parts.filter(Boolean).join(', ')}`
}

/** The same as a list, with places in the code. */
function table(uses: UseOfBytes[]): HTMLElement {
  const head = ['thread', 'does', 'bytes', 'at'].map((title) => el('th', { scope: 'col' }, title))
  const rows = uses
    .slice(0, USES)
    .map(({ thread, does, first, bytes, at, events }) =>
      el(
        'tr',
        {},
        el('td', {}, `T${thread}`),
        el('td', {}, does === 'write' ? 'writes' : 'reads'),
        el('td', {}, bytesOf(first, first + bytes)),
        el('td', { class: 'code' }, el('code', {}, at)),
        el('td', { class: 'number' }, grouped(events)),
      ),
    )
  const title = el('tr', {}, ...head, el('th', { scope: 'col', class: 'number' }, 'events'))
  return el('table', {}, el('thead', {}, title), el('tbody', {}, ...rows))
}
