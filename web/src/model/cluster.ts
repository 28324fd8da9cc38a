// Threads in an order in which those that communicate lie side by side: groups are found by average linkage
// (the nearest-neighbour chain: Murtagh, A survey of recent advances in hierarchical clustering
// algorithms, 1983), then each is turned so that neighbours communicate most. Pure; time and memory grow
// with the square of the threads.
import type { SparseMatrix } from './matrix'

/** Most threads that are ordered so: 32 MiB of numbers. */
export const MAX_CLUSTERED = 2048

/** The threads by clusters of their communication, both directions together. Threads that are alike in every
 *  way stay in the order of their ids. */
export function byCluster(matrix: SparseMatrix): number[] {
  const { threads } = matrix
  const cells = symmetric(matrix)
  /** Sums between clusters; a merged one lives on in the place of its first. */
  const sums = Float64Array.from(cells)
  const members: number[][] = Array.from({ length: threads }, (_, thread) => [thread])
  const sizes = new Float64Array(threads).fill(1)
  const alive = Array.from({ length: threads }, (_, thread) => thread)
  const chain: number[] = []
  while (alive.length > 1) {
    if (chain.length === 0) chain.push(alive[0]!)
    const top = chain[chain.length - 1]!
    const next = nearest(sums, threads, sizes, alive, top, chain[chain.length - 2])
    if (next !== chain[chain.length - 2]) {
      chain.push(next)
      continue
    }
    chain.length -= 2
    const [kept, gone] = [Math.min(top, next), Math.max(top, next)]
    for (const other of alive) {
      const sum = sums[kept * threads + other]! + sums[gone * threads + other]!
      sums[kept * threads + other] = sums[other * threads + kept] = sum
    }
    members[kept] = joined(members[kept]!, members[gone]!, cells, threads)
    sizes[kept]! += sizes[gone]!
    alive.splice(alive.indexOf(gone), 1)
  }
  return alive.length > 0 ? members[alive[0]!]! : []
}

/** Events between each two threads, both directions. */
function symmetric(matrix: SparseMatrix): Float64Array {
  const { threads } = matrix
  const cells = new Float64Array(threads * threads)
  for (let i = 0; i < matrix.size; i++) {
    const [a, b] = [matrix.from[i]!, matrix.to[i]!]
    if (a === b) continue
    const events = Number(matrix.count[i]!)
    cells[a * threads + b]! += events
    cells[b * threads + a]! += events
  }
  return cells
}

/** The cluster with the most communication with `of` per pair of threads; among equals the one before it in
 *  the chain, so that the chain ends, then the one of the least id. */
function nearest(
  sums: Float64Array,
  threads: number,
  sizes: Float64Array,
  alive: number[],
  of: number,
  before: number | undefined,
): number {
  const average = (other: number): number => sums[of * threads + other]! / sizes[other]!
  let best = before ?? -1
  let most = before === undefined ? -1 : average(before)
  for (const other of alive) {
    if (other === of) continue
    const value = average(other)
    if (value > most) [best, most] = [other, value]
  }
  return best
}

/** Two groups in a row, each perhaps turned round, so that the threads that meet communicate most. */
function joined(a: number[], b: number[], cells: Float64Array, threads: number): number[] {
  const between = (s: number, t: number): number => cells[s * threads + t]!
  const [a0, a1, b0, b1] = [a[0]!, a[a.length - 1]!, b[0]!, b[b.length - 1]!]
  const turned = (list: number[]): number[] => [...list].reverse()
  const ways: [number, () => number[]][] = [
    [between(a1, b0), () => [...a, ...b]],
    [between(a1, b1), () => [...a, ...turned(b)]],
    [between(a0, b0), () => [...turned(a), ...b]],
    [between(a0, b1), () => [...b, ...a]],
  ]
  return ways.reduce((best, way) => (way[0] > best[0] ? way : best))[1]()
}
