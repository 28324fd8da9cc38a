// The communication matrix as a heat map on a canvas: readable at 4 threads (numbers in the cells)
// and at hundreds (bins). A second canvas on top marks the cell under the pointer or the keyboard.

import { byCluster, MAX_CLUSTERED } from '../model/cluster'
import { type Data, KIND_WORDS, kindsOf, knowsSharing, threadName, unit } from '../model/data'
import { type BinnedMatrix, binned, byId, byPlace, exactAt, type SparseMatrix, threadsAt } from '../model/matrix'
import { grouped, percent, short } from '../model/numbers'
import { colour, labelStep, rampScale, textOn } from '../model/scale'
import { hasSharing, matrixToShow, type SharingChoice, samePick } from '../selection'
import type { Order, State, Store } from '../state'
import { card, choice, cssVariable, el, hideTip, prepare, showTip } from './dom'
import { legend } from './legend'

const MARGIN = { left: 58, top: 8, right: 8, bottom: 52 }
/** Least and greatest size of a cell, CSS pixels. */
const CELL = { least: 2, greatest: 112 }
/** A cell this wide has room for a number. */
const ROOM_FOR_TEXT = 34

/** Where the cells are in the canvas, CSS pixels. */
interface Plot {
  x: number
  y: number
  cell: number
  matrix: BinnedMatrix
}

export function heatmap(data: Data, store: Store): HTMLElement {
  const kinds = kindsOf(data.findings)
  const tools = [scaleChoice(store)]
  if (knowsSharing(data.findings)) tools.unshift(sharingChoice(store))
  if (kinds.length > 1) tools.unshift(kindChoice(data, store))
  const orders = ordersOf(data)
  if (orders.length > 1)
    tools.push(choice('Order of the threads', orders, store.state.order, (order) => store.set({ order })))
  const section = card('Communication matrix', 'matrix', ...tools)
  const canvas = el('canvas', { id: 'matrix', tabindex: 0, role: 'img' })
  const overlay = el('canvas', { class: 'overlay' })
  const stack = el('div', { class: 'stack' }, canvas, overlay)
  const scale = el('div', { class: 'legend' })
  section.append(stack, scale)
  const view = new HeatmapView(data, store, canvas, overlay, scale)
  new ResizeObserver(() => view.draw()).observe(stack)
  store.on(['kind', 'sharing', 'range', 'line'], () => view.recount())
  store.on(['scale', 'order', 'layout', 'theme', 'pick'], () => view.draw())
  return section
}

function kindChoice(data: Data, store: Store): HTMLElement {
  const options = kindsOf(data.findings).map((value) => ({
    value,
    text: KIND_WORDS[value].label,
    title: KIND_WORDS[value].doc,
  }))
  return choice('Events', options, store.state.kind, (kind) => store.set({ kind }))
}

function sharingChoice(store: Store): HTMLElement {
  const options: { value: SharingChoice; text: string; title: string }[] = [
    { value: 'all', text: 'total', title: 'true and false sharing together' },
    { value: 'true', text: 'true', title: 'the same bytes' },
    { value: 'false', text: 'false', title: 'other bytes of the same line' },
  ]
  const switcher = choice('Sharing', options, store.state.sharing, (sharing) => store.set({ sharing }))
  const show = (): void => {
    switcher.hidden = !hasSharing(store.state.kind)
  }
  show()
  store.on(['kind'], show)
  return switcher
}

function scaleChoice(store: Store): HTMLElement {
  const options = [
    { value: 'linear' as const, text: 'linear' },
    { value: 'log' as const, text: 'log' },
  ]
  return choice('Colour scale', options, store.state.scale, (scale) => store.set({ scale }))
}

/** The orders that the threads can be in. */
function ordersOf({ findings, talk }: Data): { value: Order; text: string; title: string }[] {
  const orders: { value: Order; text: string; title: string }[] = [
    { value: 'id', text: 'by id', title: 'threads in the order they were started' },
  ]
  if (findings.placement) {
    orders.push({ value: 'place', text: 'by place', title: 'threads in the order of their PUs' })
  }
  if (talk.size > 0 && talk.threads <= MAX_CLUSTERED) {
    const title = 'threads that communicate with each other side by side'
    orders.push({ value: 'cluster', text: 'by cluster', title })
  }
  return orders
}

class HeatmapView {
  private plot: Plot | null = null
  /** What is drawn: depends on what the reader has selected. */
  private sparse: SparseMatrix
  /** The threads by cluster, once that was asked for. */
  private clustered: number[] | null = null
  private cursor: { row: number; column: number } | null = null

  constructor(
    private readonly data: Data,
    private readonly store: Store,
    private readonly canvas: HTMLCanvasElement,
    private readonly overlay: HTMLCanvasElement,
    private readonly scale: HTMLElement,
  ) {
    this.sparse = matrixToShow(data, store.state)
    canvas.addEventListener('click', () => this.pick())
    canvas.addEventListener('pointermove', (event) => this.point(event))
    canvas.addEventListener('pointerleave', () => this.leave())
    canvas.addEventListener('blur', () => this.leave())
    canvas.addEventListener('keydown', (event) => this.key(event))
  }

  private order(state: State): number[] {
    const placement = this.data.findings.placement
    const layout = placement?.layouts[state.layout]
    if (state.order === 'place' && layout) return byPlace(layout.pu_logical)
    if (state.order === 'cluster') {
      this.clustered ??= byCluster(this.data.talk)
      return this.clustered
    }
    return byId(this.data.findings.threads.length)
  }

  /** Something else is to be counted. */
  recount(): void {
    this.sparse = matrixToShow(this.data, this.store.state)
    this.draw()
  }

  draw(): void {
    const { state } = this.store
    const width = this.canvas.parentElement!.clientWidth
    const room = width - MARGIN.left - MARGIN.right
    if (room <= 0) return
    const { sparse } = this
    const matrix = binned(sparse, this.order(state), Math.floor(room / CELL.least))
    const fitting = Math.min(CELL.greatest, room / Math.max(1, matrix.cells))
    // Whole pixels keep the grid even, fractions keep many threads within the width.
    const cell = fitting >= 4 ? Math.floor(fitting) : fitting
    const side = cell * matrix.cells
    this.plot = { x: MARGIN.left, y: MARGIN.top, cell, matrix }
    const height = MARGIN.top + side + MARGIN.bottom
    const g = prepare(this.canvas, width, height)
    prepare(this.overlay, width, height)
    this.drawCells(g, state)
    this.drawPick(g, state)
    drawAxes(g, this.plot, this.store.state)
    this.cursor = null
    // Tests and people with developer tools find the cells with this.
    this.canvas.dataset.plot = JSON.stringify({
      x: this.plot.x,
      y: this.plot.y,
      cell,
      cells: matrix.cells,
      bin: matrix.bin,
    })
    const words = KIND_WORDS[state.kind]
    this.canvas.setAttribute(
      'aria-label',
      `Matrix of ${words.label}: ${grouped(sparse.total)} events, columns ${words.from}, rows ` +
        `${words.to}. Arrow keys move from cell to cell, Enter filters by one.`,
    )
    this.scale.replaceChildren(
      legend(matrix, state, side, `${unit(this.data.findings.measured.block_bytes)}, ${words.doc}`),
    )
  }

  private drawCells(g: CanvasRenderingContext2D, state: State): void {
    const { x, y, cell, matrix } = this.plot!
    const gap = cell >= 8 ? 1 : 0
    const side = cell * matrix.cells
    g.fillStyle = cssVariable('--cell-zero')
    g.fillRect(x, y, side, side)
    const diagonal = cssVariable('--cell-self')
    const ramp = rampScale(matrix.min, matrix.max, state.scale)
    for (let row = 0; row < matrix.cells; row++) {
      for (let column = 0; column < matrix.cells; column++) {
        const value = matrix.values[row * matrix.cells + column]!
        const self = row === column && matrix.bin === 1
        if (value === 0 && !self) continue
        g.fillStyle = self ? diagonal : colour(ramp(value), state.theme)
        g.fillRect(x + column * cell, y + row * cell, cell - gap, cell - gap)
        if (value > 0 && cell >= ROOM_FOR_TEXT) this.drawNumber(g, row, column, value)
      }
    }
  }

  /** Outlines the cell that everything else is filtered by. */
  private drawPick(g: CanvasRenderingContext2D, { pick }: State): void {
    if (pick === null) return
    const { x, y, cell, matrix } = this.plot!
    const at = (thread: number): number => Math.floor(matrix.order.indexOf(thread) / matrix.bin)
    const outline = (from: number | null, to: number | null): void => {
      const [width, height] = [from, to].map((t) => (t === null ? matrix.cells * cell : Math.max(cell, 4)))
      const [column, row] = [from, to].map((t) => (t === null ? 0 : at(t) * cell))
      g.strokeRect(x + column!, y + row!, width!, height!)
    }
    g.strokeStyle = cssVariable('--alarm')
    g.lineWidth = 3
    const [from, to] = [pick.from[0]!, pick.to && pick.to[0]!]
    outline(from, to)
    if (pick.both) outline(to, from)
  }

  /** Filters by the cell under the pointer, or no longer. */
  private pick(): void {
    if (!this.cursor) return
    const { matrix } = this.plot!
    const { row, column } = this.cursor
    const [to, from] = [threadsAt(matrix, row), threadsAt(matrix, column)]
    const { pick } = this.store.state
    const same = samePick(pick, { from, to })
    const self = matrix.bin === 1 && row === column
    this.store.set({ pick: same || self ? null : { from, to } })
  }

  private drawNumber(g: CanvasRenderingContext2D, row: number, column: number, value: number): void {
    const { x, y, cell } = this.plot!
    g.fillStyle = textOn(g.fillStyle as string)
    g.font = `${cell >= 56 ? 13 : 11}px ${cssVariable('--mono')}`
    g.textAlign = 'center'
    g.textBaseline = 'middle'
    g.fillText(short(value), x + (column + 0.5) * cell, y + (row + 0.5) * cell, cell - 4)
  }

  private point(event: PointerEvent): void {
    const { x, y, cell, matrix } = this.plot!
    const box = this.canvas.getBoundingClientRect()
    const column = Math.floor((event.clientX - box.left - x) / cell)
    const row = Math.floor((event.clientY - box.top - y) / cell)
    const inside = row >= 0 && column >= 0 && row < matrix.cells && column < matrix.cells
    if (inside) this.select(row, column, event.clientX, event.clientY)
    else this.leave()
  }

  private key(event: KeyboardEvent): void {
    const moves: Record<string, [number, number]> = {
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
    }
    if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault()
      this.pick()
      return
    }
    const move = moves[event.key]
    if (!move) return
    event.preventDefault()
    const { x, y, cell, matrix } = this.plot!
    const clamp = (at: number): number => Math.min(matrix.cells - 1, Math.max(0, at))
    const row = clamp((this.cursor?.row ?? -1) + move[0])
    const column = clamp((this.cursor?.column ?? -1) + move[1])
    const box = this.canvas.getBoundingClientRect()
    this.select(row, column, box.left + x + (column + 1) * cell, box.top + y + (row + 1) * cell)
  }

  private select(row: number, column: number, clientX: number, clientY: number): void {
    const { x, y, cell, matrix } = this.plot!
    const moved = this.cursor?.row !== row || this.cursor.column !== column
    this.cursor = { row, column }
    const [to, from] = [threadsAt(matrix, row), threadsAt(matrix, column)]
    showTip(clientX, clientY, ...this.words(from, to, row, column))
    if (!moved) return
    const g = this.overlay.getContext('2d')!
    g.clearRect(0, 0, this.overlay.width, this.overlay.height)
    const side = cell * matrix.cells
    g.fillStyle = cssVariable('--crosshair')
    g.fillRect(x, y + row * cell, side, cell)
    g.fillRect(x + column * cell, y, cell, side)
    g.strokeStyle = cssVariable('--text')
    g.lineWidth = 2
    g.strokeRect(x + column * cell, y + row * cell, cell, cell)
    this.store.set({ focus: { from, to } })
  }

  private words(from: number[], to: number[], row: number, column: number): (string | Node)[] {
    const matrix = this.sparse
    const words = KIND_WORDS[this.store.state.kind]
    const { threads } = this.data.findings
    const name = (list: number[]): string =>
      list.length === 1
        ? threadName(threads[list[0]!]!)
        : `T${list[0]} … T${list[list.length - 1]} (${list.length} threads)`
    const lines: (string | Node)[] = [`${words.from}: ${name(from)}`, `${words.to}: ${name(to)}`]
    if (from.length === 1 && to.length === 1 && from[0] === to[0]) {
      return [`${name(from)} with itself: not counted`]
    }
    const count = exactAt(matrix, this.plot!.matrix, row, column)
    const share = matrix.total > 0n ? Number(count) / Number(matrix.total) : 0
    lines.push(el('strong', {}, `${grouped(count)} ${words.label}`), `${percent(share)} of all`)
    return lines
  }

  private leave(): void {
    if (!this.cursor) return
    this.cursor = null
    hideTip()
    this.overlay.getContext('2d')!.clearRect(0, 0, this.overlay.width, this.overlay.height)
    this.store.set({ focus: null })
  }
}

function drawAxes(g: CanvasRenderingContext2D, plot: Plot, state: State): void {
  const { x, y, cell, matrix } = plot
  const side = cell * matrix.cells
  const words = KIND_WORDS[state.kind]
  g.fillStyle = cssVariable('--muted')
  g.font = `11px ${cssVariable('--sans')}`
  const step = labelStep(cell, `T${matrix.order.length}`.length)
  for (let at = 0; at < matrix.cells; at += step) {
    const label = `T${matrix.order[at * matrix.bin]}`
    const middle = (at + 0.5) * cell
    g.textAlign = 'right'
    g.textBaseline = 'middle'
    g.fillText(label, x - 6, y + middle)
    g.textAlign = 'center'
    g.textBaseline = 'top'
    g.fillText(label, x + middle, y + side + 6)
  }
  g.fillStyle = cssVariable('--text')
  g.font = `12px ${cssVariable('--sans')}`
  g.textAlign = 'center'
  g.textBaseline = 'top'
  g.fillText(`${words.from} →`, x + side / 2, y + side + 28)
  g.save()
  g.translate(6, y + side / 2)
  g.rotate(-Math.PI / 2)
  g.fillText(`← ${words.to}`, 0, 0)
  g.restore()
}
