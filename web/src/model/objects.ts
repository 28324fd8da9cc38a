// The objects that threads meet on: what the table sorts by, and who uses which bytes of one.
import { duration, percent } from './numbers'
import type { HotObject, UseOfBytes, Uses } from './page-data'

/** Bytes of a cache line. */
export const LINE = 64

export type ObjectKey = 'name' | 'size' | 'blocks' | 'users' | 'events' | 'falsely'

/** `counters (app)`, or the place that allocated it, or what kind of memory it is. */
export function objectName(object: HotObject): string {
  if (object.name === '') return object.region === 'heap' ? 'heap memory in no known block' : object.region
  if (object.region === 'heap') return `allocated ${object.name}`
  return object.region === 'anonymous' ? `mapped ${object.name}` : object.name
}

/**
 * Part of the events on an object that are false sharing: `60 %`, or from the least to the most where that is not
 * known of all of them.
 */
export function falseShare({ sharing, events }: HotObject): string {
  if (sharing.true + sharing.false === 0) return 'not known'
  const least = percent(sharing.false / events)
  const most = percent((sharing.false + sharing.unknown) / events)
  return least === most ? least : `${least} to ${most}`
}

/** How long its blocks are there: `freed after 20 ms`, `never freed`, or nothing where that is not known. */
export function lifetime({ blocks, freed, lifetime_ns: ns }: HotObject): string {
  if (blocks === 0 || freed === null) return ''
  if (freed === 0) return 'never freed'
  return ns === null ? '' : `freed after ${duration(ns / 1e9)}`
}

/** Indexes of objects in the order of a column; equal ones by events. */
export function sorted(list: HotObject[], by: ObjectKey, descending: boolean): number[] {
  const keys: Record<ObjectKey, (o: HotObject) => number | string> = {
    name: objectName,
    size: (o) => o.bytes,
    blocks: (o) => o.blocks,
    users: (o) => o.threads.length,
    events: (o) => o.events,
    falsely: (o) => o.sharing.false,
  }
  const key = keys[by]
  return list
    .map((object, index) => ({ value: key(object), index }))
    .sort((a, b) => {
      const [x, y] = [a.value, b.value]
      const compared = typeof x === 'number' && typeof y === 'number' ? x - y : `${x}`.localeCompare(`${y}`)
      return (descending ? -compared : compared) || a.index - b.index
    })
    .map(({ index }) => index)
}

/** What a thread does with neighbouring bytes. */
export interface Span {
  first: number
  /** The first byte after it. */
  end: number
  writes: number
  reads: number
}

/** A row of the map: a thread, and the bytes that it uses. */
export interface MapRow {
  thread: number
  spans: Span[]
}

/** Uses of one line of an object, or of all its lines laid over each other. */
export function usesOf(uses: Uses, line: number | null): UseOfBytes[] {
  return line === null ? uses.bytes : uses.bytes.filter((use) => use.line === line)
}

/** The map of uses: threads with the most events first, and how many have no room. */
export function byteMap(uses: UseOfBytes[], most: number): { rows: MapRow[]; more: number } {
  const threads = new Map<number, { sum: number; writes: number[]; reads: number[] }>()
  for (const { thread, does, first, bytes, events } of uses) {
    let of = threads.get(thread)
    if (!of) {
      of = { sum: 0, writes: Array<number>(LINE).fill(0), reads: Array<number>(LINE).fill(0) }
      threads.set(thread, of)
    }
    of.sum += events
    const row = does === 'write' ? of.writes : of.reads
    for (let byte = first; byte < Math.min(LINE, first + bytes); byte++) row[byte]! += events
  }
  const order = [...threads].sort(([a, x], [b, y]) => y.sum - x.sum || a - b)
  const rows = order.slice(0, most).sort(([a], [b]) => a - b)
  return {
    rows: rows.map(([thread, { writes, reads }]) => ({ thread, spans: spans(writes, reads) })),
    more: order.length - rows.length,
  }
}

/** Neighbouring bytes with the same numbers are one span. */
function spans(writes: number[], reads: number[]): Span[] {
  const found: Span[] = []
  for (let first = 0; first < LINE; ) {
    let end = first + 1
    while (end < LINE && writes[end] === writes[first] && reads[end] === reads[first]) end++
    if (writes[first]! + reads[first]! > 0) found.push({ first, end, writes: writes[first]!, reads: reads[first]! })
    first = end
  }
  return found
}

/** `0–7`, or the one byte. */
export function bytesOf(first: number, end: number): string {
  return end - first > 1 ? `${first}–${end - 1}` : `${first}`
}
