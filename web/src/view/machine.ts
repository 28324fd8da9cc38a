// The placement drawing (COMPROF, figure 5): the machine as nested boxes, threads in them, communication as
// lines coloured by the level they cross; before and after side by side, or one at a time. Beside
// it what crosses which level, and what other policies cost (policies.ts).
import { type Data, KIND_WORDS, threadName } from '../model/data'
import { threadList } from '../model/lines'
import { type Box, commonLevels, type Drawing, drawMachine, metrics, mostPerPu } from '../model/machine'
import {
  type Bond,
  type Bonds,
  bondLimit,
  bondsOf,
  eventsBetween,
  MAX_ALONE,
  type Mark,
  marksOf,
  neighbour,
} from '../model/marks'
import type { SparseMatrix } from '../model/matrix'
import { grouped, percent, relativeCost } from '../model/numbers'
import type { Layout, Placement } from '../model/page-data'
import { matrixToShow, type Pick, samePick } from '../selection'
import { type State, type Store, standsOut } from '../state'
import { card, choice, el, hideTip, showTip, svg } from './dom'
import { caption, type LevelKey, levelKey, policies, shares } from './policies'

/** Most PUs of a machine that is drawn twice, before and after, unless the reader wants it. */
export const MAX_BESIDE = 128
/** Boxes of larger machines have no labels for PUs. */
const MAX_LABELLED = 128
/** A picture is scrolled rather than shrunk below this part of its natural size. */
const MIN_SCALE = 0.7

export function machine(data: Data, placement: Placement, store: Store): HTMLElement {
  const last = placement.layouts.length - 1
  const options = [
    { value: 'beside', text: 'before | after', title: 'both, side by side' },
    ...placement.layouts.map((_, i) => ({ value: `${i}`, text: caption(placement, i), title: cost(placement, i) })),
  ]
  const { beside, layout } = store.state
  const switcher = choice('Placement', options, beside ? 'beside' : `${layout}`, (value) =>
    store.set({ beside: value === 'beside', layout: value === 'beside' ? last : Number(value) }),
  )
  const section = card('Where it could run', 'machine', switcher)
  const pictures = el('div', { class: 'pictures', id: 'machine' })
  const key = levelKey(placement)
  let drawn: Picture[] = []
  const draw = (): void => {
    const { beside, layout } = store.state
    const matrix = matrixToShow(data, store.state)
    const shown = beside && last > 0 ? [0, last] : [layout]
    drawn = shown.map((i) => new Picture(data, placement, i, matrix, key, store))
    pictures.classList.toggle('two', drawn.length > 1)
    pictures.replaceChildren(...drawn.map((picture) => picture.figure))
  }
  draw()
  store.on(['layout', 'beside', 'kind', 'sharing', 'range', 'line'], draw)
  store.on(['focus', 'pick'], (state) => drawn.forEach((picture) => picture.mark(state)))
  const where = placement.elsewhere ? `${placement.machine}; not where the profile was recorded` : placement.machine
  const enough = data.findings.reliability?.enough ?? true
  const few = enough ? null : 'Computed from too few samples: these placements may be no better than chance.'
  section.append(
    el('p', { class: 'note' }, where),
    ...(few ? [el('p', { class: 'note' }, few)] : []),
    pictures,
    el('div', { class: 'beside' }, shares(placement, key), policies(placement)),
  )
  return section
}

/** A layout's cost against chance, in words. */
function cost({ layouts, chance }: Placement, index: number): string {
  const { cost } = layouts[index]!
  return chance.cost > 0 ? `${relativeCost(cost / chance.cost)} of the cost by chance` : ''
}

/** What the lines show, and what not. */
function words(data: Data, { bonds, together }: Picture, { kind, line, range, sharing }: State): string {
  const selected = line !== null || range !== null || sharing !== 'all'
  const what = `${KIND_WORDS[kind].label}${selected ? ' selected' : ''}`
  const apart = together ? 'pairs of PUs' : 'pairs of threads'
  if (bonds.all === 0) return `No ${what} between ${together ? 'PUs' : 'threads'}.`
  const shown =
    bonds.list.length < bonds.all
      ? `Lines: the ${grouped(bonds.list.length)} strongest of ${grouped(bonds.all)} ${apart}, ${percent(bonds.share)} of the ${what}.`
      : bonds.all === 1
        ? `Line: the only one of the ${apart} with ${what}.`
        : `Lines: all ${grouped(bonds.all)} ${apart} with ${what}.`
  const within = together ? ` A circle is all threads of a PU; ${percent(bonds.within)} stays within.` : ''
  const more = data.findings.threads.length > 1 ? ' Click a thread or a line to see its cache lines.' : ''
  return `${shown}${within}${data.findings.lines ? more : ''}`
}

/** One drawing of the machine under one layout. */
class Picture {
  readonly figure: HTMLElement
  readonly bonds: Bonds
  readonly together: boolean
  private readonly svg: SVGSVGElement
  private readonly layout: Layout
  private readonly drawing: Drawing
  private readonly marks: Mark[]
  private readonly nodes: SVGElement[]
  private readonly lines: SVGElement[]
  /** The mark that the keyboard is at. */
  private at = -1

  constructor(
    private readonly data: Data,
    private readonly placement: Placement,
    index: number,
    private readonly matrix: SparseMatrix,
    private readonly key: LevelKey,
    private readonly store: Store,
  ) {
    this.layout = placement.layouts[index]!
    const most = mostPerPu(placement.layouts)
    this.together = most > MAX_ALONE
    const perPu = this.together ? 1 : most
    this.drawing = drawMachine(placement.tree, perPu)
    const pus = this.drawing.pus.size
    const { label } = metrics(pus, perPu)
    const labelHeight = pus <= MAX_LABELLED ? label : 0
    this.marks = marksOf(this.drawing, this.layout.pu_logical, labelHeight, this.together)
    this.bonds = bondsOf(matrix, this.marks, bondLimit(this.marks.length))
    this.nodes = this.marks.map((mark, i) => this.node(mark, i))
    this.lines = this.bonds.list.map((bond) => this.line(bond))
    this.svg = this.picture(index, label)
    const text = el('figcaption', {}, el('b', {}, caption(placement, index)), ` ${cost(placement, index)}`)
    const note = el('p', { class: 'note' }, words(data, this, store.state))
    this.figure = el('figure', { class: 'picture' }, text, el('div', { class: 'pan' }, this.svg), note)
    this.mark(store.state)
  }

  private picture(index: number, label: number): SVGSVGElement {
    const { width, height, boxes, pus } = this.drawing
    const picture = svg('svg', { viewBox: `-2 -2 ${width + 4} ${height + 4}`, role: 'img', tabindex: 0 })
    const name = caption(this.placement, index)
    picture.setAttribute(
      'aria-label',
      `Threads on the machine, ${name}. Arrow keys move from thread to thread, Enter filters by one.`,
    )
    // Small machines are not blown up to the width of the card, large ones not shrunk into it.
    picture.style.maxWidth = `${Math.round(width * (pus.size <= 40 ? 1.25 : 1.6))}px`
    picture.style.minWidth = `${Math.round(width * MIN_SCALE)}px`
    picture.classList.toggle('crowded', this.lines.length > 150)
    // Weak lines first, so that strong ones lie on top; labels above them, so that they stay readable.
    picture.append(...boxes.map(boxShape), ...[...this.lines].reverse())
    const labelled = boxes.filter(({ pu }) => pu === undefined || pus.size <= MAX_LABELLED)
    picture.append(...labelled.flatMap((box) => boxLabel(box, label)), ...this.nodes)
    picture.addEventListener('keydown', (event) => this.press(event))
    picture.addEventListener('blur', () => this.leave())
    return picture
  }

  /** Shows what stands out. */
  mark(state: State): void {
    const focus = standsOut(state)
    this.svg.classList.toggle('focused', focus !== null)
    const has = (list: number[] = []): boolean[] => {
      const wanted = new Set(list)
      return this.marks.map(({ threads }) => threads.some((thread) => wanted.has(thread)))
    }
    const [from, to] = [has(focus?.from), has(focus?.to)]
    // Of a single thread all lines stand out, of two only that between them.
    const any = focus !== null && focus.to.length === 0
    const on = (a: number, b: number): boolean => from[a]! && (any || to[b]!)
    this.nodes.forEach((node, i) => node.classList.toggle('on', from[i]! || to[i]!))
    this.bonds.list.forEach(({ a, b }, i) => this.lines[i]!.classList.toggle('on', on(a, b) || on(b, a)))
  }

  private level(a: Mark, b: Mark): string {
    const { levels, pus } = this.placement
    return levels[commonLevels(levels, pus, a.pu, b.pu)]?.name ?? 'on one PU'
  }

  private line(bond: Bond): SVGElement {
    const [a, b] = [this.marks[bond.a]!, this.marks[bond.b]!]
    const relative = bond.events / this.bonds.list[0]!.events
    const [mx, my] = [(a.x + b.x) / 2, (a.y + b.y) / 2]
    const bend = 0.1
    const level = this.level(a, b)
    const line = svg('path', {
      class: 'bond',
      d: `M${a.x},${a.y} Q${mx - (b.y - a.y) * bend},${my + (b.x - a.x) * bend} ${b.x},${b.y}`,
      stroke: this.key.get(level),
      'stroke-width': (0.6 + markRadius(this.drawing.pus.size) * 0.42 * relative).toFixed(2),
      'stroke-opacity': (0.25 + 0.6 * Math.sqrt(relative)).toFixed(2),
    })
    line.addEventListener('pointermove', (event) => {
      const events = this.between(a, b)
      const what = KIND_WORDS[this.store.state.kind].label
      const all = this.bonds.total
      showTip(
        event.clientX,
        event.clientY,
        `${this.name(a)} ↔ ${this.name(b)}`,
        el('strong', {}, `${grouped(events)} ${what}, ${level}`),
        `${percent(all > 0 ? bond.events / all : 0)} of all`,
      )
      this.store.set({ focus: { from: a.threads, to: b.threads } })
    })
    line.addEventListener('pointerleave', () => this.leave())
    line.addEventListener('click', () => this.pick({ from: a.threads, to: b.threads, both: true }))
    return line
  }

  private node(mark: Mark, index: number): SVGElement {
    const radius = markRadius(this.drawing.pus.size)
    const { threads } = mark
    const group = svg('g', { class: 'node', 'data-thread': threads[0] })
    group.setAttribute('transform', `translate(${mark.x},${mark.y})`)
    const text = this.together ? `×${threads.length}` : `${threads[0]}`
    // Three digits just fit; the rest is smaller.
    const size = Math.min(12, (radius * 2.6) / Math.max(text.length, 2.4))
    group.append(svg('circle', { r: radius }), svg('text', { 'font-size': size.toFixed(1) }, text))
    group.addEventListener('pointermove', (event) => this.point(index, event.clientX, event.clientY))
    group.addEventListener('pointerleave', () => this.leave())
    group.addEventListener('click', () => this.pickMark(index))
    return group
  }

  /** Exact events between two marks. */
  private between(a: Mark, b: Mark): bigint {
    const events = eventsBetween(this.matrix, a.threads, b.threads)
    // Pairs without direction stand in the matrix both ways.
    return this.store.state.kind === 'undirected' ? events / 2n : events
  }

  private name({ threads }: Mark): string {
    if (threads.length === 1) return threadName(this.data.findings.threads[threads[0]!]!)
    return `${threadList(threads)} (${threads.length})`
  }

  /** Shows what is known of a mark. */
  private point(index: number, x: number, y: number): void {
    const mark = this.marks[index]!
    const thread = mark.threads[0]!
    const { pu_os, place } = this.layout
    const where = `P#${pu_os[thread]}${place[thread] ? ` (${place[thread]})` : ''}`
    const within = mark.threads.length > 1 ? this.between(mark, mark) / 2n : null
    const what = KIND_WORDS[this.store.state.kind].label
    showTip(
      x,
      y,
      el('strong', {}, this.name(mark)),
      where,
      ...(within === null ? [] : [`${grouped(within)} ${what} among them`]),
    )
    this.store.set({ focus: { from: mark.threads, to: [] } })
  }

  private press(event: KeyboardEvent): void {
    const moves: Record<string, [number, number]> = {
      ArrowUp: [0, -1],
      ArrowDown: [0, 1],
      ArrowLeft: [-1, 0],
      ArrowRight: [1, 0],
    }
    const move = moves[event.key]
    if (this.marks.length === 0) return
    if (move) {
      event.preventDefault()
      // The first key selects the first mark.
      this.at = this.at < 0 ? 0 : neighbour(this.marks, this.at, ...move)
      const node = this.nodes[this.at]!
      node.scrollIntoView({ block: 'nearest', inline: 'nearest' })
      const box = node.getBoundingClientRect()
      this.point(this.at, box.right, box.bottom)
    } else if ((event.key === 'Enter' || event.key === ' ') && this.at >= 0) {
      event.preventDefault()
      this.pickMark(this.at)
    } else if (event.key === 'Escape') {
      this.store.set({ pick: null })
    }
  }

  private pickMark(index: number): void {
    this.pick({ from: this.marks[index]!.threads, to: null, both: true })
  }

  /** Filters by what was clicked, or no longer. */
  private pick(pick: Pick): void {
    this.store.set({ pick: samePick(this.store.state.pick, pick) ? null : pick })
  }

  private leave(): void {
    hideTip()
    this.store.set({ focus: null })
  }
}

function boxShape(box: Box): SVGElement {
  const group = svg('g', {
    class: `box depth${box.depth % 2}${box.allowed ? '' : ' forbidden'}${box.pu === undefined ? '' : ' pu'}`,
  })
  group.append(
    svg('title', {}, box.allowed ? box.title : `${box.title} (not allowed)`),
    svg('rect', { x: box.x, y: box.y, width: box.width, height: box.height, rx: 4 }),
  )
  return group
}

function boxLabel(box: Box, labelHeight: number): SVGElement[] {
  if (box.label === '' || box.width < 26) return []
  const size = Math.min(11, labelHeight - 3)
  const room = Math.floor((box.width - 8) / (size * 0.54))
  const text = box.label.length > room ? `${box.label.slice(0, Math.max(1, room - 1))}…` : box.label
  return [svg('text', { class: 'label', x: box.x + 5, y: box.y + size + 2, 'font-size': size }, text)]
}

/** Radius of a mark on a machine with this many PUs. */
function markRadius(pus: number): number {
  return pus <= 40 ? 14 : pus <= 128 ? 11 : 8.5
}
