// The placement drawing (COMPROF, figure 5): the machine as nested boxes, threads in them, talk as
// lines coloured by the level they cross; before and after; and what crosses which level.
import { type Data, type Layout, type Placement, threadName } from '../model/data'
import {
  type Box,
  commonLevels,
  drawMachine,
  type Drawing,
  metrics,
  mostPerPu,
  threadSpots,
} from '../model/machine'
import { type Edge, strongestPairs } from '../model/matrix'
import { grouped, percent, relativeCost } from '../model/numbers'
import { levelColours, textOn } from '../model/scale'
import { edgeInFocus, inFocus, type Store } from '../state'
import { card, choice, el, hideTip, showTip, svg } from './dom'

/** Colours by name of level. */
export type LevelKey = Map<string, string>

export function machine(data: Data, placement: Placement, store: Store): HTMLElement {
  const options = placement.layouts.map((layout, i) => ({
    value: `${i}`,
    text: caption(placement, i),
    title: `${grouped(Math.round(layout.cost))} ${placement.cost_unit} predicted`.trim(),
  }))
  const switcher = choice('Placement', options, `${store.state.layout}`, (value) =>
    store.set({ layout: Number(value) }),
  )
  const section = card('Where it could run', 'machine', switcher)
  const key = levelKey(placement)
  const picture = svg('svg', { id: 'machine', role: 'img' })
  const draw = (): void => drawLayout(picture, data, placement, store, key)
  draw()
  store.on(['layout'], draw)
  store.on(['focus'], ({ focus }) => mark(picture, focus))
  section.append(el('p', { class: 'note' }, placement.machine), picture, shares(placement, key))
  return section
}

export function caption(placement: Placement, index: number): string {
  const { policy } = placement.layouts[index]!
  if (index === 0) return `before: ${policy}`
  return index === placement.layouts.length - 1 ? `after: ${policy}` : policy
}

/** Colours of the levels that any layout uses, nearest first. */
export function levelKey(placement: Placement): LevelKey {
  const all = [placement.chance, ...placement.layouts].map(({ shares }) => shares)
  const longest = all.reduce((a, b) => (b.length > a.length ? b : a))
  const names = longest.map((share) => share.level)
  const colours = levelColours(names.length)
  return new Map(names.map((name, i) => [name, colours[i]!]))
}

function drawLayout(
  picture: SVGSVGElement,
  data: Data,
  placement: Placement,
  store: Store,
  key: LevelKey,
): void {
  const layout = placement.layouts[store.state.layout]!
  const perPu = mostPerPu(placement.layouts)
  const drawing = drawMachine(placement.tree, perPu)
  const { label } = metrics(drawing.pus.size, perPu)
  const labelled = drawing.pus.size <= 128
  picture.replaceChildren()
  picture.setAttribute('viewBox', `-2 -2 ${drawing.width + 4} ${drawing.height + 4}`)
  picture.setAttribute('aria-label', `Threads placed by ${layout.policy}`)
  // Small machines are not blown up to the width of the card.
  picture.style.maxWidth = `${Math.round(drawing.width * (drawing.pus.size <= 40 ? 1.25 : 1.6))}px`
  picture.append(...drawing.boxes.map(boxShape))
  const spots = threadSpots(drawing, layout.pu_logical, labelled ? label : 0)
  const { edges } = strongestPairs(data.talk, Math.max(40, 2 * spots.length))
  picture.classList.toggle('crowded', edges.length > 150)
  const lines = [...edges].reverse().map((edge) => {
    return talkLine(edge, edges[0]!.events, spots, layout, placement, key, data, store)
  })
  picture.append(...lines.filter((line) => line !== null))
  // Above the lines, so that they stay readable.
  picture.append(...drawing.boxes.flatMap((box) => boxLabel(box, label)))
  picture.append(...threadMarks(drawing, spots, data, layout, store))
  mark(picture, store.state.focus)
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
  return [
    svg('text', { class: 'label', x: box.x + 5, y: box.y + size + 2, 'font-size': size }, text),
  ]
}

type Spot = { x: number; y: number } | null

function talkLine(
  edge: Edge,
  most: number,
  spots: Spot[],
  layout: Layout,
  placement: Placement,
  key: LevelKey,
  data: Data,
  store: Store,
): SVGElement | null {
  const [a, b] = [spots[edge.from], spots[edge.to]]
  const [puA, puB] = [layout.pu_logical[edge.from], layout.pu_logical[edge.to]]
  if (!a || !b || puA === null || puA === undefined || puB === null || puB === undefined) return null
  const common = commonLevels(placement.levels, placement.pus, puA, puB)
  const level = placement.levels[common]?.name ?? 'on one PU'
  const relative = edge.events / most
  const [mx, my] = [(a.x + b.x) / 2, (a.y + b.y) / 2]
  const bend = 0.1
  const line = svg('path', {
    class: 'talk',
    'data-from': edge.from,
    'data-to': edge.to,
    d: `M${a.x},${a.y} Q${mx - (b.y - a.y) * bend},${my + (b.x - a.x) * bend} ${b.x},${b.y}`,
    stroke: key.get(level),
    'stroke-width': (0.6 + markRadius(placement.pus.length) * 0.42 * relative).toFixed(2),
    'stroke-opacity': (0.25 + 0.6 * Math.sqrt(relative)).toFixed(2),
  })
  line.addEventListener('pointermove', (event) => {
    const { threads } = data.findings
    showTip(
      event.clientX,
      event.clientY,
      `${threadName(threads[edge.from]!)} ↔ ${threadName(threads[edge.to]!)}`,
      el('strong', {}, `${grouped(edge.events)} reads, ${level}`),
    )
    store.set({ focus: { from: [edge.from], to: [edge.to] } })
  })
  line.addEventListener('pointerleave', () => leave(store))
  return line
}

/** Radius of a thread's circle on a machine with so many PUs. */
function markRadius(pus: number): number {
  return pus <= 40 ? 14 : pus <= 128 ? 11 : 8.5
}

function threadMarks(
  drawing: Drawing,
  spots: Spot[],
  data: Data,
  layout: Layout,
  store: Store,
): SVGElement[] {
  const radius = markRadius(drawing.pus.size)
  const marks: SVGElement[] = []
  spots.forEach((spot, thread) => {
    if (!spot) return
    const group = svg('g', { class: 'node', 'data-thread': thread })
    group.setAttribute('transform', `translate(${spot.x},${spot.y})`)
    const size = Math.min(12, radius * (thread >= 100 ? 0.95 : 1.1))
    group.append(svg('circle', { r: radius }), svg('text', { 'font-size': size }, `${thread}`))
    group.addEventListener('pointermove', (event) => {
      const place = layout.place[thread]
      showTip(
        event.clientX,
        event.clientY,
        el('strong', {}, threadName(data.findings.threads[thread]!)),
        `P#${layout.pu_os[thread]}${place ? ` (${place})` : ''}`,
      )
      store.set({ focus: { from: [thread], to: [] } })
    })
    group.addEventListener('pointerleave', () => leave(store))
    marks.push(group)
  })
  return marks
}

function mark(picture: SVGSVGElement, focus: Store['state']['focus']): void {
  picture.classList.toggle('focused', focus !== null)
  for (const node of picture.querySelectorAll<SVGElement>('.node')) {
    node.classList.toggle('on', inFocus(focus, Number(node.dataset.thread)))
  }
  for (const line of picture.querySelectorAll<SVGElement>('.talk')) {
    const { from, to } = line.dataset
    line.classList.toggle('on', edgeInFocus(focus, Number(from), Number(to)))
  }
}

function leave(store: Store): void {
  hideTip()
  store.set({ focus: null })
}

/** Stacked bars: of each layout's talk, what goes where. */
function shares(placement: Placement, key: LevelKey): HTMLElement {
  const chance = placement.chance
  const bars = placement.layouts.map((layout, i) => ({ ...layout, name: caption(placement, i) }))
  const rows = [{ ...chance, name: 'by chance' }, ...bars].map(({ name, shares, cost }) => {
    const bar = el('div', { class: 'stackbar' })
    for (const share of shares) {
      if (share.share <= 0) continue
      const text = percent(share.share)
      const title = `${share.level}: ${grouped(share.events)}, ${text}`
      const part = el('span', { title }, share.share >= 0.07 ? text : '')
      part.style.flexGrow = `${share.share}`
      const colour = key.get(share.level)!
      part.style.background = colour
      part.style.color = textOn(colour)
      bar.append(part)
    }
    const relative = chance.cost > 0 ? relativeCost(cost / chance.cost) : ''
    return el(
      'tr',
      {},
      el('th', { scope: 'row' }, name),
      el('td', { class: 'grow' }, bar),
      el('td', { class: 'number' }, relative),
    )
  })
  const keys = el('p', { class: 'keys' })
  for (const [level, colour] of key) {
    const swatch = el('i', { class: 'swatch' })
    swatch.style.background = colour
    keys.append(el('span', { class: 'key' }, swatch, level))
  }
  const head = el(
    'tr',
    {},
    el('th', {}),
    el('th', {}, 'where the talk goes'),
    el('th', { class: 'number' }, 'predicted cost'),
  )
  return el(
    'div',
    { class: 'shares' },
    el('table', {}, el('thead', {}, head), el('tbody', {}, ...rows)),
    keys,
    el('p', { class: 'note' }, 'By chance: the average of all placements, what an unplaced run can look like.'),
  )
}
