// The communication graph (COMPROF, figure 4): which edges, and where the nodes lie. Strong communication
// pulls threads together; the layout is deterministic.
import {
  forceCenter,
  forceCollide,
  forceLink,
  forceManyBody,
  forceSimulation,
  forceX,
  forceY,
  type SimulationNodeDatum,
} from 'd3-force'
import type { Edge } from './matrix'

export interface Point {
  x: number
  y: number
}

/** How many directed edges are drawn for this many threads. */
export function edgeLimit(threads: number): number {
  return Math.min(2000, Math.max(60, 6 * threads))
}

/** Radius of a thread's circle. */
export function nodeRadius(threads: number): number {
  if (threads <= 16) return 17
  return threads <= 64 ? 12 : 9
}

/** Width and height of the drawing: more threads get more room, and so become smaller. */
export function graphSize(threads: number): [number, number] {
  const scale = Math.max(1, Math.sqrt(threads / 48))
  return [Math.round(560 * scale), Math.round(430 * scale)]
}

/** Places the threads in `width` × `height`, as far from the edge as `margin`. */
export function layoutGraph(threads: number, edges: Edge[], width: number, height: number, margin: number): Point[] {
  if (threads === 0) return []
  const nodes: SimulationNodeDatum[] = Array.from({ length: threads }, () => ({}))
  const most = edges.reduce((max, edge) => Math.max(max, edge.events), 1)
  const links = edges.map((edge) => ({
    source: edge.from,
    target: edge.to,
    weight: edge.events / most,
  }))
  const radius = nodeRadius(threads)
  const simulation = forceSimulation(nodes)
    .force('charge', forceManyBody().strength(-12 * radius))
    .force(
      'link',
      forceLink(links)
        .distance((link) => radius * (6 - 3 * Math.sqrt(link.weight)))
        .strength((link) => 0.05 + 0.6 * link.weight),
    )
    .force('collide', forceCollide(radius * 1.35))
    .force('x', forceX(0).strength(0.03))
    .force('y', forceY(0).strength(0.05))
    .force('center', forceCenter(0, 0))
    .stop()
  simulation.tick(threads > 512 ? 80 : 300)
  return fitInto(
    nodes.map((node) => ({ x: node.x ?? 0, y: node.y ?? 0 })),
    width,
    height,
    margin,
  )
}

/** Moves and scales points into a box; the proportions stay, and nothing is blown up without
 *  bound. */
export function fitInto(points: Point[], width: number, height: number, margin: number): Point[] {
  const xs = points.map((p) => p.x)
  const ys = points.map((p) => p.y)
  const [left, right] = [min(xs), -min(xs.map((x) => -x))]
  const [top, bottom] = [min(ys), -min(ys.map((y) => -y))]
  const room = [width - 2 * margin, height - 2 * margin] as const
  const scale = Math.min(room[0] / Math.max(1e-9, right - left), room[1] / Math.max(1e-9, bottom - top), 3)
  return points.map((p) => ({
    x: width / 2 + (p.x - (left + right) / 2) * scale,
    y: height / 2 + (p.y - (top + bottom) / 2) * scale,
  }))
}

function min(values: number[]): number {
  return values.reduce((a, b) => Math.min(a, b), Infinity)
}
