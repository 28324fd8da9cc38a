// What the reader has selected, as data: the matrix to show, and the events of hot lines to count.

import { bothWays, type Layer, matrixOf, type Range } from './model/cells'
import { type Data, isOf, type Kind } from './model/data'
import { type LineEvent, lineMatrix, type Wanted } from './model/lines'
import type { SparseMatrix } from './model/matrix'

/** True and false sharing together, or one of them. */
export type SharingChoice = 'all' | 'true' | 'false'

/** Threads of a cell of the matrix, writers and readers by their axes; or those of a drawing. */
export interface Pick {
  from: number[]
  /** Null: any thread. */
  to: number[] | null
  /** The other direction as well. */
  both?: boolean
}

/** The part of the state that says what is counted. */
export interface Selection {
  kind: Kind
  sharing: SharingChoice
  /** Bins of the matrices; null is the whole run. */
  range: Range | null
  /** A cell of the matrix, a thread or an edge that was clicked. */
  pick: Pick | null
  /** A line that was clicked: its rank. */
  line: number | null
}

/** Whether the sharing of this kind of event can be told apart at all. */
export function hasSharing(kind: Kind): boolean {
  return kind === 'transfers' || kind === 'raw' || kind === 'waw'
}

/** The layers that a selection of kind and sharing sums up. */
export function layersOf(data: Data, { kind, sharing }: Selection): Layer[] {
  const any = sharing === 'all' || !hasSharing(kind)
  return data.time.layers.filter((l) => isOf(kind, l) && (any || l.sharing === sharing))
}

/** The matrix to show: of the run or a part of it, or of one line over the whole run. */
export function matrixToShow(data: Data, selection: Selection): SparseMatrix {
  const threads = data.findings.threads.length
  const { line, kind } = selection
  if (line !== null) {
    const wanted = wantedEvents({ ...selection, pick: null })
    const of = data.lines.byLine[line] ?? []
    return lineMatrix(of, threads, (event) => isOf(kind, event) && wanted(event))
  }
  const matrix = matrixOf(layersOf(data, selection), threads, selection.range)
  return kind === 'undirected' ? bothWays(matrix) : matrix
}

/** The events of hot lines that a selection counts: reads and overwrites alike. */
export function wantedEvents({ sharing, pick }: Selection): Wanted {
  const between = pickedPairs(pick)
  return (event: LineEvent) => (sharing === 'all' || event.sharing === sharing) && between(event.from, event.to)
}

/** Whether events from one thread to another are picked. */
export function pickedPairs(pick: Pick | null): (from: number, to: number) => boolean {
  if (pick === null) return () => true
  const froms = new Set(pick.from)
  const tos = pick.to && new Set(pick.to)
  const oneWay = (from: number, to: number): boolean => froms.has(from) && (tos === null || tos.has(to))
  return (from, to) => oneWay(from, to) || (pick.both === true && oneWay(to, from))
}

/** Whether two picks are of the same threads. */
export function samePick(a: Pick | null, b: Pick | null): boolean {
  return JSON.stringify(a) === JSON.stringify(b)
}

/** The stretch of the program's progress that a range of bins of the matrices covers. */
export function stretch(data: Data, [first, end]: Range): [number, number] {
  const { bounds, binsPerCell } = data.time
  const last = bounds.length - 1
  return [bounds[Math.min(last, first * binsPerCell)]!, bounds[Math.min(last, end * binsPerCell)]!]
}
