// The hot lines: a table with a picture of each line's 64 bytes, and the code that meets on the one
// that is selected, writing and taking side by side.
import type { Data } from '../model/data'
import { evidence } from '../model/evidence'
import {
  type ByteUse,
  events,
  type Flow,
  flows,
  type LineEvent,
  type LineSum,
  ranges,
  sumByLine,
  threadList,
  useOfBytes,
  whereabouts,
} from '../model/lines'
import { grouped, percent } from '../model/numbers'
import type { HotLine, Place } from '../model/page-data'
import { wantedEvents } from '../selection'
import type { State, Store } from '../state'
import { card, el, hideTip, showTip, svg } from './dom'

/** Rows at first, and more for each press of the button. */
const ROWS = 12
/** Flows shown of a line. */
const FLOWS = 12
/** Colours of threads in a line (Okabe and Ito's palette); several threads at once are grey. */
const THREADS = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00', '#b8a900']
const SEVERAL = 'var(--muted)'

export function lines(data: Data, store: Store): HTMLElement | null {
  const found = data.findings.lines
  if (!found || found.list.length === 0) return null
  const section = card('Hot lines', 'lines')
  const body = el('tbody')
  const note = el('p', { class: 'note' })
  const more = el('button', { type: 'button', class: 'more' }, 'Show more lines')
  const detail = el('div', { class: 'flows' })
  let shown = ROWS
  const draw = (): void => {
    const sums = sumsFor(data, store.state)
    body.replaceChildren(...sums.slice(0, shown).map((sum) => row(data, sum, store)))
    more.hidden = sums.length <= shown
    note.replaceChildren(words(data, store.state, sums))
    detail.replaceChildren(...codeThatMeets(data, store.state))
  }
  more.addEventListener('click', () => {
    shown += 4 * ROWS
    draw()
  })
  draw()
  store.on(['sharing', 'pick', 'line'], draw)
  const titles = [
    'line',
    'bytes written, read',
    'written at',
    'taken at',
    'reads',
    'overwrites',
    'share',
    'sharing',
    'evidence',
  ]
  const numeric = ['reads', 'overwrites', 'share']
  const head = el(
    'tr',
    {},
    ...titles.map((t) => el('th', { scope: 'col', class: numeric.includes(t) ? 'number' : '' }, t)),
  )
  const table = el('table', {}, el('thead', {}, head), body)
  section.append(note, el('div', { class: 'wide' }, table), more, detail)
  return section
}

/** The lines to list: exact sums without a filter, else those of the events that the page holds. */
function sumsFor(data: Data, state: State): LineSum[] {
  const sums = sumByLine(data.lines.byLine, wantedEvents(state))
  if (state.pick !== null || state.sharing !== 'all') return sums
  const list = data.findings.lines!.list
  const exact = sums.map((sum) => {
    const line = list[sum.line]!
    const all = (s: HotLine['raw']): number => s.true + s.false + s.unknown
    const truly = line.raw.true + line.waw.true
    const falsely = line.raw.false + line.waw.false
    return { ...sum, reads: all(line.raw), overwrites: all(line.waw), truly, falsely }
  })
  return exact.sort((a, b) => a.line - b.line)
}

function words(data: Data, state: State, sums: LineSum[]): string {
  const found = data.findings.lines!
  const listed = found.list.reduce((sum, line) => sum + line.events, 0)
  const held = data.lines.events.reduce((sum, event) => sum + event.count, 0)
  const parts = [
    `${grouped(found.list.length)} of ${grouped(found.all)} lines, with ${percent(found.listed_share)} of ` +
      `${grouped(found.events)} reads and overwrites of what another thread wrote`,
  ]
  if (found.elsewhere > 0) {
    parts.push(`${grouped(found.elsewhere)} are on lines that were not kept apart`)
  }
  if (held < listed) {
    parts.push(`filters and code count ${percent(held / listed)} of them, the most frequent`)
  }
  if (state.pick !== null) parts.push(`${grouped(sums.length)} lines match the filter`)
  return `${parts.join('; ')}. Click a line to see which code and threads share it.`
}

function row(data: Data, sum: LineSum, store: Store): HTMLTableRowElement {
  const found = data.findings.lines!
  const line = found.list[sum.line]!
  const of = data.lines.byLine[sum.line] ?? []
  const pressed = store.state.line === sum.line
  const name = el('button', { type: 'button', 'aria-pressed': `${pressed}` }, line.object || line.region)
  const cells = [
    el('td', { class: 'name' }, name, el('small', {}, line.object ? `${line.address}, ${line.region}` : line.address)),
    el('td', {}, picture(of, store.state)),
    el('td', { class: 'code' }, ...code(data.lines.places[sum.giver]!)),
    el('td', { class: 'code' }, ...code(data.lines.places[sum.taker]!)),
    el('td', { class: 'number' }, grouped(sum.reads)),
    el('td', { class: 'number' }, grouped(sum.overwrites)),
    el('td', { class: 'number' }, percent(events(sum) / Math.max(1, found.events))),
    el('td', {}, sharing(sum, events(sum))),
    el('td', {}, evidence(line.evidence)),
  ]
  const tr = el('tr', { class: pressed ? 'on' : '' }, ...cells)
  tr.addEventListener('click', () => store.set({ line: pressed ? null : sum.line }))
  return tr
}

function code(place: Place): Node[] {
  const title = [place.function, ...place.inlined_into.map((caller) => `in ${caller}`), place.file || place.module]
  const where = el('code', { title: title.filter(Boolean).join('\n') }, whereabouts(place))
  return place.function ? [where, el('small', {}, place.function)] : [where]
}

/** A word and colour for the sharing of events. */
function sharing({ truly, falsely }: { truly: number; falsely: number }, all: number): HTMLElement {
  if (truly + falsely === 0) return el('span', { class: 'badge' }, 'not known')
  const kind = falsely > truly ? 'false' : 'true'
  return el('span', { class: `badge ${kind}` }, `${percent(Math.max(truly, falsely) / all)} ${kind}`)
}

/** Two rows of 64 bytes: who writes, who reads. */
function picture(of: LineEvent[], state: State): SVGElement {
  const use = useOfBytes(of, wantedEvents(state))
  const threads = [...new Set(use.flatMap(({ writers, readers }) => [...writers, ...readers]))]
  threads.sort((a, b) => a - b)
  const image = svg('svg', { class: 'bytes', viewBox: '0 0 256 26', role: 'img', 'aria-label': aloud(use) })
  const rows: [keyof ByteUse, number][] = [
    ['writers', 0],
    ['readers', 14],
  ]
  for (const [who, y] of rows) {
    image.append(svg('rect', { class: 'none', x: 0, y, width: 256, height: 12 }))
    // Neighbouring bytes of the same threads are one box.
    for (let first = 0; first < 64; ) {
      const key = use[first]![who].join()
      let end = first + 1
      while (end < 64 && use[end]![who].join() === key) end++
      if (key !== '') {
        const list = use[first]![who]
        const fill = list.length > 1 ? SEVERAL : THREADS[threads.indexOf(list[0]!) % THREADS.length]!
        const box = { x: 4 * first, y, width: 4 * (end - first) - 0.6, height: 12 }
        image.append(svg('rect', { ...box, style: `fill: ${fill}`, class: who }))
      }
      first = end
    }
  }
  image.addEventListener('pointermove', (event) => {
    const box = image.getBoundingClientRect()
    const byte = Math.max(0, Math.min(63, Math.floor(((event.clientX - box.left) / box.width) * 64)))
    const { writers, readers } = use[byte]!
    const name = (list: number[]): string => (list.length > 0 ? threadList(list) : 'no thread')
    showTip(event.clientX, event.clientY, `byte ${byte}`, `written by ${name(writers)}`, `read by ${name(readers)}`)
  })
  image.addEventListener('pointerleave', hideTip)
  return image
}

/** The picture in words. */
function aloud(use: ByteUse[]): string {
  const set = (who: keyof ByteUse): bigint =>
    use.reduce((bytes, u, i) => (u[who].length > 0 ? bytes | (1n << BigInt(i)) : bytes), 0n)
  return `bytes written: ${ranges(set('writers')) || 'none'}; read: ${ranges(set('readers')) || 'none'}`
}

/** The code that meets on a line, or on all: what writes and what takes it, side by side. */
function codeThatMeets(data: Data, state: State): Node[] {
  const { line } = state
  const info = line === null ? null : data.findings.lines!.list[line]!
  const title = info
    ? `Code that meets on ${info.object || info.region} at ${info.address}`
    : 'Code that meets, over all lines'
  const heading = el('h3', {}, title)
  const of = line === null ? data.lines.code : (data.lines.byLine[line] ?? [])
  const all = flows(of, wantedEvents(state))
  if (all.length === 0) return [heading, el('p', { class: 'note' }, 'Nothing of what is selected.')]
  const head = el(
    'tr',
    {},
    el('th', {}, 'written by'),
    el('th', {}, 'at'),
    el('th', { class: 'number' }, 'events'),
    el('th', {}, 'sharing'),
    el('th', {}, 'taken by'),
    el('th', {}, 'at'),
  )
  const rows = all.slice(0, FLOWS).map((flow) => flowRow(data, flow))
  const table = el('table', {}, el('thead', {}, head), el('tbody', {}, ...rows))
  const parts: Node[] = [heading, el('div', { class: 'wide' }, table)]
  const held = of.reduce((sum, event) => sum + event.count, 0)
  const events = info ? info.events : data.findings.code!.events
  const notes: string[] = []
  if (all.length > FLOWS) notes.push(`and ${grouped(all.length - FLOWS)} more pairs of places in the code`)
  if (held < events) notes.push(`this counts ${percent(held / events)} of the events, the most frequent`)
  if (notes.length > 0) parts.push(el('p', { class: 'note' }, `${notes.join('; ')}.`))
  return parts
}

function flowRow(data: Data, flow: Flow): HTMLElement {
  const side = (threads: number[], bytes: bigint, verb: string): Node[] => [
    el('b', {}, threadList(threads)),
    el('small', {}, `${verb} ${ranges(bytes) || 'bytes not known'}`),
  ]
  return el(
    'tr',
    {},
    el('td', {}, ...side(flow.fromThreads, flow.fromBytes, 'had written')),
    el('td', { class: 'code' }, ...callers(data.lines.places[flow.fromPlace]!)),
    el('td', { class: 'number' }, grouped(flow.count)),
    el('td', {}, sharing(flow, flow.count)),
    el('td', {}, ...side(flow.toThreads, flow.toBytes, flow.kind === 'raw' ? 'read' : 'overwrote')),
    el('td', { class: 'code' }, ...callers(data.lines.places[flow.toPlace]!)),
  )
}

/** Where the code is, with the functions it was inlined into. */
function callers(place: Place): Node[] {
  return [...code(place), ...place.inlined_into.map((caller) => el('small', {}, `in ${caller}`))]
}
