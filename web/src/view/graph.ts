// The communication graph (COMPROF, figure 4): nodes are threads, edges are reads weighted by
// volume, the strongest only when there are many.
import { type Data, KIND_WORDS, startOf, threadName } from '../model/data'
import { edgeLimit, graphSize, layoutGraph, nodeRadius, type Point } from '../model/graph'
import { type Edge, strongest } from '../model/matrix'
import { grouped, percent } from '../model/numbers'
import { samePick } from '../selection'
import { edgeInFocus, inFocus, type Store, standsOut } from '../state'
import { card, el, hideTip, showTip, svg } from './dom'

/** Width of the strongest edge by the radius of the nodes, and of the weakest. */
const STROKE = { most: 0.42, least: 0.6 }
/** Circles of this radius have room for a number. */
const ROOM_FOR_TEXT = 9
/** Start routines get a colour each, as far as there are (Okabe and Ito's palette). */
const ROUTINES = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00', '#f0e442']

export function graph(data: Data, store: Store): HTMLElement {
  const { threads } = data.findings
  const matrix = data.talk
  const section = card('Communication graph', 'graph')
  if (matrix.size === 0) {
    section.append(el('p', { class: 'note' }, 'No communication, so no graph.'))
    return section
  }
  const { edges, share } = strongest(matrix, edgeLimit(threads.length))
  const radius = nodeRadius(threads.length)
  const [width, height] = graphSize(threads.length)
  const points = layoutGraph(threads.length, edges, width, height, radius + 14)
  const picture = svg('svg', {
    id: 'graph',
    viewBox: `0 0 ${width} ${height}`,
    role: 'img',
    'aria-label': `Graph of ${threads.length} threads and their ${edges.length} strongest edges`,
  })
  picture.append(svg('defs', {}, arrowHead('arrow', 1), arrowHead('arrow-faint', 0.25)))
  const lines = edges.map((edge) => edgePath(edge, edges[0]!.events, points, radius, data, store))
  // Weak edges first, so that strong ones lie on top.
  picture.append(...[...lines].reverse())
  const routines = [...new Set(threads.map(startOf))]
  const nodes = threads.map((thread) => {
    const fill = ROUTINES[routines.indexOf(startOf(thread))] ?? 'var(--muted)'
    return node(data, thread.id, points[thread.id]!, radius, fill, store)
  })
  picture.append(...nodes)
  store.on(['focus', 'pick'], (state) => {
    const focus = standsOut(state)
    picture.classList.toggle('focused', focus !== null)
    nodes.forEach((n, thread) => n.classList.toggle('on', inFocus(focus, thread)))
    edges.forEach((e, i) => lines[i]!.classList.toggle('on', edgeInFocus(focus, e.from, e.to)))
  })
  section.append(
    picture,
    routineKey(routines),
    note(edges.length, matrix.size, share, data.findings.talk.kind === 'undirected'),
  )
  return section
}

/** Edges with less of the strongest one's volume have faint arrows. */
const FAINT = 0.05

function arrowHead(id: string, opacity: number): SVGElement {
  const path = svg('path', { class: 'head', d: 'M0,-3 L6,0 L0,3 z', 'fill-opacity': opacity })
  return svg(
    'marker',
    {
      id,
      viewBox: '0 -3 6 6',
      refX: 5,
      markerWidth: 9,
      markerHeight: 9,
      markerUnits: 'userSpaceOnUse',
      orient: 'auto',
    },
    path,
  )
}

function edgePath(edge: Edge, most: number, points: Point[], radius: number, data: Data, store: Store): SVGElement {
  const relative = edge.events / most
  const path = svg('path', {
    class: 'edge',
    d: curve(points[edge.from]!, points[edge.to]!, radius),
    'stroke-width': (STROKE.least + STROKE.most * radius * relative).toFixed(2),
    'stroke-opacity': (0.25 + 0.6 * Math.sqrt(relative)).toFixed(2),
    'marker-end':
      points.length > 64 || data.findings.talk.kind === 'undirected'
        ? undefined
        : relative < FAINT
          ? 'url(#arrow-faint)'
          : 'url(#arrow)',
  })
  path.addEventListener('pointermove', (event) => {
    const { threads, talk } = data.findings
    const undirected = talk.kind === 'undirected'
    showTip(
      event.clientX,
      event.clientY,
      `${threadName(threads[edge.from]!)} ${undirected ? '↔' : '→'} ${threadName(threads[edge.to]!)}`,
      el('strong', {}, `${grouped(data.talk.get(edge.from, edge.to))} ${KIND_WORDS[data.findings.talk.kind].label}`),
    )
    store.set({ focus: { from: [edge.from], to: [edge.to] } })
  })
  path.addEventListener('pointerleave', () => leave(store))
  path.addEventListener('click', () => {
    const pick = { from: [edge.from], to: [edge.to] }
    store.set({ pick: samePick(store.state.pick, pick) ? null : pick })
  })
  return path
}

/** A slightly bent line between two circles, so that both directions are seen. */
function curve(a: Point, b: Point, radius: number): string {
  const [dx, dy] = [b.x - a.x, b.y - a.y]
  const length = Math.hypot(dx, dy) || 1
  const bend = Math.min(26, length * 0.14)
  const [nx, ny] = [(-dy / length) * bend, (dx / length) * bend]
  const control = { x: (a.x + b.x) / 2 + nx, y: (a.y + b.y) / 2 + ny }
  const towards = (from: Point, distance: number): Point => {
    const [x, y] = [control.x - from.x, control.y - from.y]
    const l = Math.hypot(x, y) || 1
    return { x: from.x + (x / l) * distance, y: from.y + (y / l) * distance }
  }
  const [start, end] = [towards(a, radius), towards(b, radius + 2)]
  const f = (n: number): string => n.toFixed(1)
  return `M${f(start.x)},${f(start.y)} Q${f(control.x)},${f(control.y)} ${f(end.x)},${f(end.y)}`
}

function node(data: Data, thread: number, point: Point, radius: number, fill: string, store: Store): SVGElement {
  const info = data.findings.threads[thread]!
  const group = svg('g', {
    class: 'node',
    transform: `translate(${point.x.toFixed(1)},${point.y.toFixed(1)})`,
  })
  group.append(svg('circle', { r: radius, style: `stroke: ${fill}` }))
  if (radius >= ROOM_FOR_TEXT) {
    const label = svg('text', { 'font-size': Math.min(13, radius * 1.05).toFixed(1) }, `${thread}`)
    group.append(label)
  }
  group.addEventListener('pointermove', (event) => {
    showTip(
      event.clientX,
      event.clientY,
      el('strong', {}, threadName(info)),
      startOf(info),
      ...(data.findings.talk.kind === 'undirected'
        ? [`${grouped(info.talk_out + info.talk_in)} pairs with others`]
        : [
            `${grouped(info.talk_out)} transfers to others of what it wrote`,
            `${grouped(info.talk_in)} transfers of what others wrote`,
          ]),
    )
    store.set({ focus: { from: [thread], to: [] } })
  })
  group.addEventListener('pointerleave', () => leave(store))
  group.addEventListener('click', () => {
    const pick = { from: [thread], to: null, both: true }
    store.set({ pick: samePick(store.state.pick, pick) ? null : pick })
  })
  return group
}

function leave(store: Store): void {
  hideTip()
  store.set({ focus: null })
}

function routineKey(routines: string[]): HTMLElement {
  const key = el('p', { class: 'keys' })
  routines.slice(0, ROUTINES.length).forEach((routine, i) => {
    const ring = el('i', { class: 'swatch ring' })
    ring.style.borderColor = ROUTINES[i]!
    key.append(el('span', { class: 'key', title: routine }, ring, routine))
  })
  if (routines.length > ROUTINES.length) {
    key.append(el('span', { class: 'key' }, `and ${routines.length - ROUTINES.length} more`))
  }
  return key
}

function note(shown: number, all: number, share: number, undirected: boolean): HTMLElement {
  const text =
    shown < all
      ? `The ${grouped(shown)} strongest of ${grouped(all)} edges, ${percent(share)} of the communication.`
      : `All ${grouped(all)} edges.`
  const arrows = undirected
    ? 'Width'
    : 'Cache-line transfers (RAW + WAW): an arrow goes from the thread that wrote the line last to the thread that takes it; width'
  return el('p', { class: 'note' }, `${text} ${arrows} is volume.`)
}
