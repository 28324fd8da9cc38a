// The run over time: events in each bin, what each thread executed, and a range to look at, which the
// matrix then shows. Drag over the picture, or use the two sliders.
import { scaleLinear } from 'd3-scale'
import { type Range, seriesOf } from '../model/cells'
import { axisWords, binsOf, type Data, KIND_WORDS, moment } from '../model/data'
import { duration, grouped, short } from '../model/numbers'
import { colour, timeTicks } from '../model/scale'
import { layersOf, pickedPairs, stretch } from '../selection'
import type { State, Store } from '../state'
import { card, cssVariable, el, hideTip, prepare, showTip } from './dom'

const LEFT = 58
const RIGHT = 8
/** Heights in CSS pixels: bars, gap, rows of threads, axis. */
const BARS = 90
const GAP = 10
const AXIS = 20
/** Least distance of the axis' labels, about. */
const ROOM_FOR_TIME = 70

export function timeline(data: Data, store: Store): HTMLElement | null {
  const { fine, coarse } = binsOf(data.time)
  if (fine < 2) return null
  const section = card('Over time', 'timeline')
  const canvas = el('canvas', { id: 'timeline', role: 'img' })
  const stack = el('div', { class: 'stack' }, canvas)
  const note = el('p', { class: 'note' })
  section.append(stack)
  const view = new TimelineView(data, store, canvas)
  if (coarse > 1) section.append(sliders(data, store, coarse))
  section.append(note)
  const say = (): void => note.replaceChildren(words(data, store.state))
  say()
  new ResizeObserver(() => view.draw()).observe(stack)
  store.on(['kind', 'sharing', 'range', 'pick', 'theme'], () => view.draw())
  store.on(['range', 'pick', 'line'], say)
  return section
}

/** First and last bin of the matrices that are looked at. */
function sliders(data: Data, store: Store, coarse: number): HTMLElement {
  const slider = (label: string, value: number): HTMLInputElement =>
    el('input', { type: 'range', min: 0, max: coarse, step: 1, value, 'aria-label': label })
  const [first, last] = [slider('From', 0), slider('To', coarse)]
  const text = el('output', { class: 'range' })
  const changed = (moved: HTMLInputElement): void => {
    // The one that is moved pushes the other: at least one bin stays.
    if (moved === first) last.value = `${Math.max(+last.value, Math.min(coarse, +first.value + 1))}`
    first.value = `${Math.min(+first.value, coarse - 1, Math.max(0, +last.value - 1))}`
    last.value = `${Math.max(+last.value, 1)}`
    store.set({ range: whole([+first.value, +last.value], coarse) })
  }
  first.addEventListener('input', () => changed(first))
  last.addEventListener('input', () => changed(last))
  const show = ({ range }: State): void => {
    const [start, end] = range ?? [0, coarse]
    first.value = `${start}`
    last.value = `${end}`
    const [from, to] = stretch(data, [start, end])
    text.textContent = range ? `${moment(from, data.time)} to ${moment(to, data.time)}` : 'the whole run'
  }
  store.on(['range'], show)
  show(store.state)
  return el('div', { class: 'sliders' }, first, last, text)
}

/** The range, or null for all of it. */
function whole(range: Range, coarse: number): Range | null {
  return range[0] === 0 && range[1] === coarse ? null : range
}

function words(data: Data, state: State): string {
  const { time } = data
  const { fine, coarse } = binsOf(time)
  const slice = data.findings.measured.slice_ns / 1e9
  const parts = [
    `From left to right: ${axisWords(data)}`,
    `${grouped(time.slices)} time slices` +
      (slice > 0 ? ` of ${duration(slice)} of the recorded run` : '') +
      (time.slicesPerBin > 1 ? `, ${time.slicesPerBin} in each of ${fine} bars` : ''),
  ]
  if (coarse === 1) {
    parts.push('too many pairs of threads communicate to keep a matrix for parts of the run')
  } else if (coarse < fine) {
    parts.push(`the matrix is kept for ${coarse} parts of the run`)
  }
  if (state.line !== null) parts.push('events on a line are not told apart by time')
  const rows = time.activity.threadsPerRow
  parts.push(
    `below: ${time.activity.what} per ${time.unit === 's' ? 'second' : 'part of the width'}${rows > 1 ? `, ${rows} threads a row` : ' of each thread'}`,
  )
  return `${parts.join('; ')}.`
}

interface Bars {
  bins: number
  /** From the bottom up. */
  stacks: { values: number[]; variable: string; label: string }[]
}

class TimelineView {
  private readonly bins: { fine: number; coarse: number }
  /** From the program's progress to CSS pixels. */
  private readonly time = scaleLinear()
  private start: number | null = null

  constructor(
    private readonly data: Data,
    private readonly store: Store,
    private readonly canvas: HTMLCanvasElement,
  ) {
    this.bins = binsOf(data.time)
    const { bounds } = data.time
    this.time.domain([bounds[0]!, bounds[bounds.length - 1]!])
    canvas.addEventListener('pointerdown', (event) => this.down(event))
    canvas.addEventListener('pointermove', (event) => this.move(event))
    canvas.addEventListener('pointerup', () => (this.start = null))
    canvas.addEventListener('pointerleave', () => hideTip())
  }

  private width(): number {
    return this.canvas.parentElement!.clientWidth - LEFT - RIGHT
  }

  private rowHeight(): number {
    const { rows } = this.data.time.activity
    return Math.max(2, Math.min(12, Math.floor(150 / Math.max(1, rows))))
  }

  private bars(): Bars {
    const { state } = this.store
    const { pick } = state
    const layers = layersOf(this.data, state)
    const groups = [
      { sharing: 'any', variable: '--bar-any', label: '' },
      { sharing: 'true', variable: '--bar-true', label: 'true' },
      { sharing: 'false', variable: '--alarm', label: 'false' },
    ]
    const bins = pick ? this.bins.coarse : this.bins.fine
    const between = pickedPairs(pick && { ...pick, both: pick.both || state.kind === 'undirected' })
    const stacks = groups.map(({ sharing, variable, label }) => {
      const of = layers.filter((layer) => layer.sharing === sharing)
      const values = pick
        ? seriesOf(of, bins, between)
        : Array.from({ length: bins }, (_, bin) => of.reduce((sum, l) => sum + l.totals[bin]!, 0))
      return { values, variable, label }
    })
    return { bins, stacks: stacks.filter(({ values }) => values.some((value) => value > 0)) }
  }

  draw(): void {
    const width = this.width()
    if (width <= 0) return
    this.time.range([LEFT, LEFT + width])
    const { rows } = this.data.time.activity
    const rowHeight = this.rowHeight()
    const height = BARS + GAP + rows * rowHeight + AXIS
    const g = prepare(this.canvas, LEFT + width + RIGHT, height)
    const bars = this.bars()
    const most = this.drawBars(g, bars)
    this.drawActivity(g, width, rowHeight)
    this.drawAxis(g, BARS + GAP + rows * rowHeight)
    this.drawRange(g, width, height - AXIS)
    g.fillStyle = cssVariable('--muted')
    g.font = `11px ${cssVariable('--sans')}`
    g.textAlign = 'right'
    g.textBaseline = 'top'
    g.fillText(short(most), LEFT - 6, 0)
    g.fillText('events', LEFT - 6, 14)
    g.fillText('threads', LEFT - 6, BARS + GAP)
    this.canvas.dataset.plot = JSON.stringify({ x: LEFT, width, bins: bars.bins, most })
    const label = `${KIND_WORDS[this.store.state.kind].label} and what threads executed, over time`
    this.canvas.setAttribute('aria-label', label)
  }

  /** Draws the bars and returns the value at the top. */
  private drawBars(g: CanvasRenderingContext2D, { bins, stacks }: Bars): number {
    const sum = (bin: number): number => stacks.reduce((all, s) => all + s.values[bin]!, 0)
    let most = 0
    for (let bin = 0; bin < bins; bin++) most = Math.max(most, sum(bin))
    const height = scaleLinear([0, most || 1], [0, BARS])
    for (let bin = 0; bin < bins; bin++) {
      const [x, next] = [this.x(bin, bins), this.x(bin + 1, bins)]
      let top = BARS
      for (const { values, variable } of stacks) {
        const tall = height(values[bin]!)
        g.fillStyle = cssVariable(variable)
        g.fillRect(x, top - tall, Math.max(0.5, next - x - (next - x > 4 ? 1 : 0)), tall)
        top -= tall
      }
    }
    return most
  }

  /** Where a bin starts: bins are as long as their time. */
  private x(bin: number, bins: number): number {
    const { bounds } = this.data.time
    const per = bins === this.bins.fine ? 1 : this.data.time.binsPerCell
    return this.time(bounds[Math.min(bounds.length - 1, bin * per)]!)
  }

  private drawActivity(g: CanvasRenderingContext2D, width: number, rowHeight: number): void {
    const { activity, bounds } = this.data.time
    const { fine } = this.bins
    const rate = (row: number, bin: number): number => {
      const time = bounds[bin + 1]! - bounds[bin]!
      return time > 0 ? activity.values[row * fine + bin]! / time : 0
    }
    let most = 0
    for (let i = 0; i < activity.rows * fine; i++) most = Math.max(most, rate(Math.floor(i / fine), i % fine))
    g.fillStyle = cssVariable('--cell-zero')
    g.fillRect(LEFT, BARS + GAP, width, activity.rows * rowHeight)
    for (let row = 0; row < activity.rows; row++) {
      for (let bin = 0; bin < fine; bin++) {
        const value = rate(row, bin)
        if (value === 0) continue
        const [x, next] = [this.x(bin, fine), this.x(bin + 1, fine)]
        g.fillStyle = colour(value / most, this.store.state.theme)
        const gap = rowHeight > 4 ? 1 : 0
        g.fillRect(x, BARS + GAP + row * rowHeight, Math.max(0.5, next - x), rowHeight - gap)
      }
    }
  }

  private drawAxis(g: CanvasRenderingContext2D, top: number): void {
    const [first, last] = this.time.domain() as [number, number]
    const [left, right] = this.time.range() as [number, number]
    g.fillStyle = cssVariable('--muted')
    g.font = `11px ${cssVariable('--sans')}`
    g.textBaseline = 'top'
    const most = Math.min(6, (right - left) / ROOM_FOR_TIME)
    for (const { at, text } of timeTicks(first, last, most, this.data.time.unit)) {
      const x = this.time(at)
      const half = g.measureText(text).width / 2
      g.textAlign = x - half < left ? 'left' : x + half > right + RIGHT ? 'right' : 'center'
      g.fillRect(x - 0.5, top, 1, 3)
      g.fillText(text, x, top + 5)
    }
  }

  private drawRange(g: CanvasRenderingContext2D, width: number, height: number): void {
    const { range } = this.store.state
    if (range === null) return
    const [start, end] = range.map((bin) => this.x(bin, this.bins.coarse))
    g.fillStyle = cssVariable('--shade')
    g.fillRect(LEFT, 0, start! - LEFT, height)
    g.fillRect(end!, 0, LEFT + width - end!, height)
    g.strokeStyle = cssVariable('--accent')
    g.lineWidth = 2
    g.strokeRect(start!, 1, end! - start!, height - 2)
  }

  /** The bin under the pointer, if there are `bins`. */
  private binAt(event: PointerEvent, bins: number): number {
    const x = event.clientX - this.canvas.getBoundingClientRect().left
    let bin = 0
    while (bin + 1 < bins && this.x(bin + 1, bins) <= x) bin++
    return bin
  }

  private down(event: PointerEvent): void {
    if (this.bins.coarse < 2) return
    event.preventDefault()
    this.canvas.setPointerCapture(event.pointerId)
    this.start = this.binAt(event, this.bins.coarse)
    this.drag(event)
  }

  private drag(event: PointerEvent): void {
    const now = this.binAt(event, this.bins.coarse)
    const [a, b] = [Math.min(this.start!, now), Math.max(this.start!, now) + 1]
    this.store.set({ range: whole([a, b], this.bins.coarse) })
  }

  private move(event: PointerEvent): void {
    if (this.start !== null) this.drag(event)
    const bars = this.bars()
    const bin = this.binAt(event, bars.bins)
    const per = bars.bins === this.bins.fine ? 1 : this.data.time.binsPerCell
    const { bounds, activity } = this.data.time
    const last = bounds.length - 1
    const [from, to] = [bounds[Math.min(last, bin * per)]!, bounds[Math.min(last, (bin + 1) * per)]!]
    let executed = 0
    for (let row = 0; row < activity.rows; row++) {
      for (let i = bin * per; i < Math.min(this.bins.fine, (bin + 1) * per); i++) {
        executed += activity.values[row * this.bins.fine + i]!
      }
    }
    const words = KIND_WORDS[this.store.state.kind].label
    showTip(
      event.clientX,
      event.clientY,
      `${moment(from, this.data.time)} to ${moment(to, this.data.time)}`,
      ...bars.stacks.map(({ values, label }) =>
        el('strong', {}, `${grouped(values[bin]!)} ${words}${label ? ` (${label} sharing)` : ''}`),
      ),
      `${grouped(executed)} ${activity.what}`,
    )
  }
}
