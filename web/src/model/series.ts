// Values over time as the points of a line.
import { scaleLinear } from 'd3-scale'

export interface Point {
  x: number
  y: number
}

/** Steps of a line over bins with these bounds (one more than values), in a box of this size; the
 * largest value touches the top, 0 the bottom. Bins without length have no step. */
export function steps(values: number[], bounds: number[], width: number, height: number): Point[] {
  const [first, last] = [bounds[0] ?? 0, bounds[bounds.length - 1] ?? 0]
  const most = values.reduce((a, b) => Math.max(a, b), 0)
  const x = scaleLinear([first, last], [0, width])
  const y = scaleLinear([0, most || 1], [height, 0])
  const points: Point[] = []
  values.forEach((value, bin) => {
    const [from, to] = [bounds[bin], bounds[bin + 1]]
    if (from === undefined || to === undefined || to <= from) return
    points.push({ x: x(from), y: y(value) }, { x: x(to), y: y(value) })
  })
  return points
}

/** The attribute `points` of a polyline. */
export function polyline(points: Point[]): string {
  return points.map(({ x, y }) => `${x.toFixed(1)},${y.toFixed(1)}`).join(' ')
}
