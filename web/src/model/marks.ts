// Threads as they are drawn in the machine: each on its own, or one mark for all threads of a PU
// where there are many; and the communication between marks. Apart from the drawing, in view/machine.ts.
import { type Drawing, threadSpots } from './machine'
import type { SparseMatrix } from './matrix'

/** More threads than this on one PU are drawn as one mark. */
export const MAX_ALONE = 9

export interface Mark {
  /** Ascending; one, or all of a PU. */
  threads: number[]
  /** Logical number. */
  pu: number
  x: number
  y: number
}

/** Communication between two marks, both directions. */
export interface Bond {
  /** Indexes of marks, a < b. */
  a: number
  b: number
  events: number
}

export interface Bonds {
  /** Strongest first. */
  list: Bond[]
  /** How many there are in all. */
  all: number
  /** Of the events between placed threads: what those in the list carry, and what stays within marks. */
  share: number
  within: number
  /** Events between placed threads. */
  total: number
}

/** How many bonds are drawn for this many marks. */
export function bondLimit(marks: number): number {
  return Math.min(1200, Math.max(40, 4 * marks))
}

/** The marks of a layout; threads without a PU have none. `labelHeight`: what a box's label takes. */
export function marksOf(drawing: Drawing, pus: (number | null)[], labelHeight: number, together: boolean): Mark[] {
  if (!together) {
    return threadSpots(drawing, pus, labelHeight).flatMap((spot, thread) =>
      spot ? [{ threads: [thread], pu: pus[thread]!, ...spot }] : [],
    )
  }
  const byPu = new Map<number, number[]>()
  pus.forEach((pu, thread) => {
    if (pu !== null) byPu.set(pu, [...(byPu.get(pu) ?? []), thread])
  })
  return [...byPu].flatMap(([pu, threads]) => {
    const box = drawing.pus.get(pu)
    if (!box) return []
    const y = box.y + labelHeight + (box.height - labelHeight) / 2
    return [{ threads, pu, x: box.x + box.width / 2, y }]
  })
}

/** The strongest communication between marks, at most `most`. */
export function bondsOf(matrix: SparseMatrix, marks: Mark[], most: number): Bonds {
  const mark = new Int32Array(matrix.threads).fill(-1)
  marks.forEach(({ threads }, i) => threads.forEach((thread) => (mark[thread] = i)))
  const sums = new Map<number, number>()
  let [total, within] = [0, 0]
  for (let i = 0; i < matrix.size; i++) {
    const [a, b] = [mark[matrix.from[i]!]!, mark[matrix.to[i]!]!]
    if (a < 0 || b < 0) continue
    const events = Number(matrix.count[i]!)
    total += events
    if (a === b) {
      within += events
      continue
    }
    const key = Math.min(a, b) * marks.length + Math.max(a, b)
    sums.set(key, (sums.get(key) ?? 0) + events)
  }
  const sorted = [...sums].sort((x, y) => y[1] - x[1] || x[0] - y[0])
  const list = sorted.slice(0, most).map(([key, events]) => ({
    a: Math.floor(key / marks.length),
    b: key % marks.length,
    events,
  }))
  const of = (events: number): number => (total > 0 ? events / total : 0)
  return {
    list,
    all: sorted.length,
    share: of(list.reduce((sum, bond) => sum + bond.events, 0)),
    within: of(within),
    total,
  }
}

/** Exact events between the threads of two marks, both directions. */
export function eventsBetween(matrix: SparseMatrix, a: number[], b: number[]): bigint {
  let sum = 0n
  for (const s of a) for (const t of b) sum += matrix.get(s, t) + matrix.get(t, s)
  return sum
}

/** The mark that an arrow key leads to from mark `at`: the nearest in that direction, those
 *  straight ahead first; `at` itself where there is none. */
export function neighbour(marks: Mark[], at: number, dx: number, dy: number): number {
  const from = marks[at]!
  let [best, least] = [at, Infinity]
  marks.forEach(({ x, y }, i) => {
    const [ahead, aside] = [(x - from.x) * dx + (y - from.y) * dy, (x - from.x) * dy + (y - from.y) * dx]
    if (ahead <= 0.5) return
    // What is more aside than ahead is the last resort.
    const distance = ahead + 3 * Math.abs(aside) + (Math.abs(aside) > ahead ? 1e6 : 0)
    if (distance < least) [best, least] = [i, distance]
  })
  return best
}
