// The pages of memory, decoded: rows of neighbouring pages for each object, and which thread accesses
// them how often. Also what a drawing of them shows: rows laid over each other until they fit.
import type { MappedObject, PageMap } from './page-data'
import { Varints } from './varints'

/** Rows of pages of one object. */
export interface PageRows {
  pages: number
  pagesPerRow: number
  /** Number of the first page of each row (address divided by 4096). */
  first: number[]
  /** How many pages each row has. */
  size: number[]
  /** Place of the node on which most of them lie. */
  home: number[]
  /** Thread that touched most of them first; -1: not known. */
  touched: number[]
  cells: PageCell[]
}

/** Accesses of a thread to the pages of a row. */
export interface PageCell {
  row: number
  thread: number
  reads: number
  writes: number
}

export function decodePages(map: PageMap | null): PageRows[] {
  return map ? map.objects.map(decode) : []
}

function decode({ pages, pages_per_row, rows, cells }: MappedObject): PageRows {
  const decoded: PageRows = {
    pages,
    pagesPerRow: pages_per_row,
    first: [],
    size: [],
    home: [],
    touched: [],
    cells: [],
  }
  const numbers = new Varints(rows)
  let before = 0
  while (!numbers.done) {
    before += numbers.next()
    decoded.first.push(before)
    decoded.size.push(numbers.next())
    decoded.home.push(numbers.next())
    decoded.touched.push(numbers.next() - 1)
  }
  const values = new Varints(cells)
  let row = 0
  while (!values.done) {
    row += values.next()
    decoded.cells.push({ row, thread: values.next(), reads: values.next(), writes: values.next() })
  }
  return decoded
}

/** What is drawn for one line of the drawing: rows of an object. */
export interface Band {
  object: number
  /** Rows from, and the first one after them. */
  from: number
  end: number
  /** Node on which most of the pages lie, and the thread that touched most of them first. */
  home: number
  touched: number
  pages: number
  /** Reads and writes by column. */
  reads: Float64Array
  writes: Float64Array
}

/** What the drawing looks at: all objects, or some rows of one. */
export interface View {
  object: number | null
  from: number
  end: number
}

/** Lines that all objects share by their accesses, beside the one that each has. */
const SHARED_LINES = 48

/** The lines of a drawing with at most `most` lines, and threads in `columns`. Accesses of threads that
 * are not `counted` are left out. */
export function bands(
  objects: PageRows[],
  view: View,
  most: number,
  columns: number,
  threads: number,
  counted: (thread: number) => boolean,
): Band[] {
  if (view.object !== null) {
    const rows = objects[view.object]
    return rows ? cut(rows, view.object, view.from, view.end, most, columns, threads, counted) : []
  }
  const shown = objects.slice(0, most)
  const sums = shown.map(({ cells }) => cells.reduce((sum, { reads, writes }) => sum + reads + writes, 0))
  const all = sums.reduce((a, b) => a + b, 0)
  const spare = Math.min(SHARED_LINES, most - shown.length)
  const lines = (object: number): number => 1 + Math.floor((spare * sums[object]!) / Math.max(1, all))
  return shown.flatMap((rows, object) =>
    cut(rows, object, 0, rows.first.length, lines(object), columns, threads, counted),
  )
}

function cut(
  rows: PageRows,
  object: number,
  from: number,
  end: number,
  most: number,
  columns: number,
  threads: number,
  counted: (thread: number) => boolean,
): Band[] {
  const perBand = Math.max(1, Math.ceil((end - from) / most))
  const list: Band[] = []
  for (let row = from; row < end; row += perBand) {
    const last = Math.min(end, row + perBand)
    list.push({
      object,
      from: row,
      end: last,
      home: mostOf(rows.home, rows.size, row, last),
      touched: mostOf(rows.touched, rows.size, row, last),
      pages: rows.size.slice(row, last).reduce((sum, pages) => sum + pages, 0),
      reads: new Float64Array(columns),
      writes: new Float64Array(columns),
    })
  }
  for (const { row, thread, reads, writes } of rows.cells) {
    if (row < from || row >= end || !counted(thread)) continue
    const band = list[Math.floor((row - from) / perBand)]!
    const column = columnOf(thread, columns, threads)
    band.reads[column]! += reads
    band.writes[column]! += writes
  }
  return list
}

/** The column of a thread, where several may share one. */
export function columnOf(thread: number, columns: number, threads: number): number {
  return Math.min(columns - 1, Math.floor((thread * columns) / Math.max(1, threads)))
}

/** The threads of a column, from the first to the one after the last. */
export function threadsOf(column: number, columns: number, threads: number): [number, number] {
  const from = Math.ceil((column * threads) / columns)
  return [from, Math.max(from + 1, Math.ceil(((column + 1) * threads) / columns))]
}

/** The value with the most weight between two places. */
function mostOf(values: number[], weights: number[], from: number, end: number): number {
  const sums = new Map<number, number>()
  for (let i = from; i < end; i++) sums.set(values[i]!, (sums.get(values[i]!) ?? 0) + weights[i]!)
  return [...sums].reduce((a, b) => (b[1] > a[1] ? b : a), [-1, 0] as [number, number])[0]
}

/** `1.5 MiB`. */
export function binaryBytes(bytes: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']
  let unit = 0
  let value = bytes
  for (; value >= 1024 && unit < units.length - 1; unit++) value /= 1024
  return `${Number.isInteger(value) || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`
}
