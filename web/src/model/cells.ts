// Matrices by kind, sharing and time, as crates/report/src/page/time.rs encodes them.
import { SparseMatrix } from './matrix'
import type { CommKind, Layer as EncodedLayer, Sharing } from './page-data'
import { Varints } from './varints'

/** The events of one kind and sharing: cells by (from, to), each with its bins. */
export interface Layer {
  kind: CommKind
  sharing: Sharing
  /** Events in each bin of time. */
  totals: number[]
  from: Uint32Array
  to: Uint32Array
  /** Where the entries of each cell start; one more than there are cells. */
  starts: Uint32Array
  bin: Uint16Array
  count: BigUint64Array
}

/** Bins of the matrices, first and one past the last. */
export type Range = readonly [number, number]

export function decodeLayer(encoded: EncodedLayer, threads: number): Layer {
  const from: number[] = []
  const to: number[] = []
  const starts: number[] = [0]
  const bin: number[] = []
  const count: bigint[] = []
  const numbers = new Varints(encoded.cells)
  let key = 0
  while (!numbers.done) {
    key += numbers.next()
    from.push(Math.floor(key / threads))
    to.push(key % threads)
    let at = 0
    for (let left = numbers.next(); left > 0; left--) {
      at += numbers.next()
      bin.push(at)
      count.push(numbers.nextBig())
    }
    starts.push(bin.length)
  }
  return {
    kind: encoded.kind,
    sharing: encoded.sharing,
    totals: new Varints(encoded.totals).rest(),
    from: Uint32Array.from(from),
    to: Uint32Array.from(to),
    starts: Uint32Array.from(starts),
    bin: Uint16Array.from(bin),
    count: BigUint64Array.from(count),
  }
}

function counted(layer: Layer, cell: number, range: Range | null): bigint {
  let sum = 0n
  for (let i = layer.starts[cell]!; i < layer.starts[cell + 1]!; i++) {
    const bin = layer.bin[i]!
    if (range === null || (bin >= range[0] && bin < range[1])) sum += layer.count[i]!
  }
  return sum
}

/** The sum of some layers over a range of time, or over the whole run. */
export function matrixOf(layers: Layer[], threads: number, range: Range | null): SparseMatrix {
  const at = layers.map(() => 0)
  const keyAt = (i: number): number => {
    const layer = layers[i]!
    const cell = at[i]!
    return cell < layer.from.length ? layer.from[cell]! * threads + layer.to[cell]! : Infinity
  }
  const from: number[] = []
  const to: number[] = []
  const count: bigint[] = []
  for (;;) {
    // The layers are sorted alike: take the least cell of all.
    let key = Infinity
    for (let i = 0; i < layers.length; i++) key = Math.min(key, keyAt(i))
    if (key === Infinity) break
    let sum = 0n
    for (let i = 0; i < layers.length; i++) {
      if (keyAt(i) !== key) continue
      sum += counted(layers[i]!, at[i]!, range)
      at[i]!++
    }
    if (sum === 0n) continue
    from.push(Math.floor(key / threads))
    to.push(key % threads)
    count.push(sum)
  }
  return new SparseMatrix(threads, Uint32Array.from(from), Uint32Array.from(to), BigUint64Array.from(count))
}

/** A matrix with every cell in both directions. */
export function bothWays(matrix: SparseMatrix): SparseMatrix {
  const cells: [number, number, bigint][] = []
  for (let i = 0; i < matrix.size; i++) {
    const [f, t, c] = [matrix.from[i]!, matrix.to[i]!, matrix.count[i]!]
    cells.push([f, t, c], [t, f, c])
  }
  cells.sort((a, b) => a[0] - b[0] || a[1] - b[1])
  return new SparseMatrix(
    matrix.threads,
    Uint32Array.from(cells, (c) => c[0]),
    Uint32Array.from(cells, (c) => c[1]),
    BigUint64Array.from(cells, (c) => c[2]),
  )
}

/** Events of some layers between some threads, by bin of the matrices. */
export function seriesOf(layers: Layer[], bins: number, between: (from: number, to: number) => boolean): number[] {
  const series = new Array<number>(bins).fill(0)
  for (const layer of layers) {
    for (let cell = 0; cell < layer.from.length; cell++) {
      if (!between(layer.from[cell]!, layer.to[cell]!)) continue
      for (let i = layer.starts[cell]!; i < layer.starts[cell + 1]!; i++) {
        series[layer.bin[i]!]! += Number(layer.count[i]!)
      }
    }
  }
  return series
}
