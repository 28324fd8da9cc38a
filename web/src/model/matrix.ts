// Sparse matrices of events between threads, and their dense view in bins for drawing.

/** Cells that are not 0, ordered by (from, to), as the profile holds them. */
export class SparseMatrix {
  /** Index into the cells where the row of each `from` starts; one entry more than threads. */
  private readonly starts: Uint32Array
  readonly total: bigint

  constructor(
    readonly threads: number,
    readonly from: Uint32Array,
    readonly to: Uint32Array,
    readonly count: BigUint64Array,
  ) {
    this.starts = new Uint32Array(threads + 1)
    for (const f of from) this.starts[f + 1]!++
    for (let t = 0; t < threads; t++) this.starts[t + 1]! += this.starts[t]!
    let total = 0n
    for (const c of count) total += c
    this.total = total
  }

  get size(): number {
    return this.count.length
  }

  /** Events between two threads, exactly. */
  get(from: number, to: number): bigint {
    let low = this.starts[from]!
    let high = this.starts[from + 1]!
    while (low < high) {
      const middle = (low + high) >> 1
      const at = this.to[middle]!
      if (at === to) return this.count[middle]!
      if (at < to) low = middle + 1
      else high = middle
    }
    return 0n
  }
}

/** A square of cells to draw: threads in some order, `bin` neighbours summed in each cell. */
export interface BinnedMatrix {
  /** Cells along an edge. */
  cells: number
  /** Threads per cell along an edge; the last cell may have fewer. */
  bin: number
  /** Position → thread. */
  order: number[]
  /** Events, row = position of `to` (reader), column = position of `from` (writer). */
  values: Float64Array
  /** Least and greatest value that is not 0; both 0 when there is none. */
  min: number
  max: number
}

/** Bins `matrix`, threads in `order`, into at most `most` cells along an edge. */
export function binned(matrix: SparseMatrix, order: number[], most: number): BinnedMatrix {
  const bin = Math.max(1, Math.ceil(matrix.threads / Math.max(1, most)))
  const cells = Math.ceil(matrix.threads / bin)
  const values = new Float64Array(cells * cells)
  const position = new Uint32Array(matrix.threads)
  order.forEach((thread, at) => (position[thread] = at))
  for (let i = 0; i < matrix.size; i++) {
    const column = Math.floor(position[matrix.from[i]!]! / bin)
    const row = Math.floor(position[matrix.to[i]!]! / bin)
    values[row * cells + column]! += Number(matrix.count[i]!)
  }
  let min = Infinity
  let max = 0
  for (const value of values) {
    if (value > 0) min = Math.min(min, value)
    max = Math.max(max, value)
  }
  return { cells, bin, order, values, min: max > 0 ? min : 0, max }
}

/** The threads of a cell along one edge. */
export function threadsAt(binned: BinnedMatrix, cell: number): number[] {
  return binned.order.slice(cell * binned.bin, (cell + 1) * binned.bin)
}

/** Exact events of a cell. */
export function exactAt(matrix: SparseMatrix, binned: BinnedMatrix, row: number, column: number): bigint {
  let sum = 0n
  for (const to of threadsAt(binned, row)) {
    for (const from of threadsAt(binned, column)) sum += matrix.get(from, to)
  }
  return sum
}

/** Threads by id. */
export function byId(threads: number): number[] {
  return Array.from({ length: threads }, (_, i) => i)
}

/** Threads by the PU they are placed on, then by id; threads without a place last. */
export function byPlace(pus: (number | null)[]): number[] {
  const key = (thread: number): number => pus[thread] ?? Infinity
  return byId(pus.length).sort((a, b) => (key(a) === key(b) ? a - b : key(a) < key(b) ? -1 : 1))
}

export interface Edge {
  from: number
  to: number
  events: number
}

/** Directed edges, strongest first, at most `most`, and the share of all events they carry. */
export function strongest(matrix: SparseMatrix, most: number): { edges: Edge[]; share: number } {
  const all = Array.from({ length: matrix.size }, (_, i) => i)
  all.sort((a, b) => {
    const [x, y] = [matrix.count[a]!, matrix.count[b]!]
    return x === y ? a - b : x > y ? -1 : 1
  })
  const edges = all.slice(0, most).map((i) => ({
    from: matrix.from[i]!,
    to: matrix.to[i]!,
    events: Number(matrix.count[i]!),
  }))
  const total = Number(matrix.total)
  const carried = edges.reduce((sum, edge) => sum + edge.events, 0)
  return { edges, share: total > 0 ? carried / total : 0 }
}

/** Undirected edges (from < to), both directions summed, strongest first. */
export function strongestPairs(matrix: SparseMatrix, most: number): { edges: Edge[]; share: number; all: number } {
  const pairs = new Map<number, Edge>()
  for (let i = 0; i < matrix.size; i++) {
    const [a, b] = [matrix.from[i]!, matrix.to[i]!]
    const [low, high] = a < b ? [a, b] : [b, a]
    const key = low * matrix.threads + high
    const edge = pairs.get(key) ?? { from: low, to: high, events: 0 }
    edge.events += Number(matrix.count[i]!)
    pairs.set(key, edge)
  }
  const sorted = [...pairs.values()].sort((a, b) => b.events - a.events || a.from - b.from || a.to - b.to)
  const edges = sorted.slice(0, most)
  const total = Number(matrix.total)
  const carried = edges.reduce((sum, edge) => sum + edge.events, 0)
  return { edges, share: total > 0 ? carried / total : 0, all: sorted.length }
}
