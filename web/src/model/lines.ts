// The events of the hot lines, as crates/report/src/page/hot.rs encodes them, and what they add up
// to for whatever the reader has selected. An event has a side that gives (it had written the line)
// and one that takes (it read or overwrote it).
import { SparseMatrix } from './matrix'
import type { CommKind, Hot, Place, Sharing } from './page-data'
import { Varints } from './varints'

/** Kinds of events that move a line. */
export type LineKind = Extract<CommKind, 'raw' | 'waw'>

const KINDS: LineKind[] = ['raw', 'waw']
const SHARINGS: Sharing[] = ['any', 'true', 'false']

export interface LineEvent {
  /** Rank of the line: index into the findings' list. */
  line: number
  kind: LineKind
  sharing: Sharing
  from: number
  to: number
  /** Indexes into the places. */
  fromPlace: number
  toPlace: number
  /** Bit sets of the line's 64 bytes. */
  fromBytes: bigint
  toBytes: bigint
  count: number
}

export interface LineData {
  places: Place[]
  /** Ordered by line. */
  events: LineEvent[]
  /** The same for each line. */
  byLine: LineEvent[][]
  /** The events of all lines together, most frequent first; line and bytes say nothing. */
  code: LineEvent[]
}

export function decodeLines(raw: Hot): LineData {
  const masks: bigint[] = []
  const bytes = new Varints(raw.bytes)
  while (!bytes.done) masks.push(bytes.nextBig())
  const numbers = new Varints(raw.events)
  const events: LineEvent[] = []
  let line = 0
  while (!numbers.done) {
    line += numbers.next()
    const code = numbers.next()
    events.push({
      line,
      kind: KINDS[Math.floor(code / 3)]!,
      sharing: SHARINGS[code % 3]!,
      from: numbers.next(),
      to: numbers.next(),
      fromPlace: numbers.next(),
      toPlace: numbers.next(),
      fromBytes: masks[numbers.next()]!,
      toBytes: masks[numbers.next()]!,
      count: numbers.next(),
    })
  }
  const byLine: LineEvent[][] = []
  for (const event of events) {
    byLine[event.line] ??= []
    byLine[event.line]!.push(event)
  }
  return { places: raw.places, events, byLine, code: decodeCode(raw.code) }
}

function decodeCode(text: string): LineEvent[] {
  const numbers = new Varints(text)
  const events: LineEvent[] = []
  while (!numbers.done) {
    const code = numbers.next()
    events.push({
      line: -1,
      kind: KINDS[Math.floor(code / 3)]!,
      sharing: SHARINGS[code % 3]!,
      from: numbers.next(),
      to: numbers.next(),
      fromPlace: numbers.next(),
      toPlace: numbers.next(),
      fromBytes: 0n,
      toBytes: 0n,
      count: numbers.next(),
    })
  }
  return events
}

export type Wanted = (event: LineEvent) => boolean

/** What the events wanted of one line add up to. */
export interface LineSum {
  line: number
  reads: number
  overwrites: number
  truly: number
  falsely: number
  /** Places that give and that take most of them. */
  giver: number
  taker: number
}

export function events(sum: LineSum): number {
  return sum.reads + sum.overwrites
}

/** The lines with events that are wanted, most events first. */
export function sumByLine(byLine: LineEvent[][], wanted: Wanted): LineSum[] {
  const sums: LineSum[] = []
  // Lines none of whose events are held are holes in the array.
  byLine.forEach((all, line) => {
    const of = all.filter(wanted)
    if (of.length > 0) sums.push(sumOf(line, of))
  })
  return sums.sort((a, b) => events(b) - events(a) || a.line - b.line)
}

function sumOf(line: number, of: LineEvent[]): LineSum {
  const sum = { line, reads: 0, overwrites: 0, truly: 0, falsely: 0 }
  const givers = new Map<number, number>()
  const takers = new Map<number, number>()
  for (const event of of) {
    if (event.kind === 'raw') sum.reads += event.count
    else sum.overwrites += event.count
    if (event.sharing === 'true') sum.truly += event.count
    if (event.sharing === 'false') sum.falsely += event.count
    givers.set(event.fromPlace, (givers.get(event.fromPlace) ?? 0) + event.count)
    takers.set(event.toPlace, (takers.get(event.toPlace) ?? 0) + event.count)
  }
  const most = (of: Map<number, number>): number => [...of].reduce((a, b) => (b[1] > a[1] ? b : a))[0]
  return { ...sum, giver: most(givers), taker: most(takers) }
}

/** Threads that use a byte. */
export interface ByteUse {
  writers: number[]
  readers: number[]
}

/** Who writes and who reads each of the 64 bytes of a line. */
export function useOfBytes(all: LineEvent[], wanted: Wanted): ByteUse[] {
  const writers = new Map<number, bigint>()
  const readers = new Map<number, bigint>()
  const put = (to: Map<number, bigint>, thread: number, bytes: bigint): void => {
    to.set(thread, (to.get(thread) ?? 0n) | bytes)
  }
  for (const event of all) {
    if (!wanted(event)) continue
    put(writers, event.from, event.fromBytes)
    put(event.kind === 'raw' ? readers : writers, event.to, event.toBytes)
  }
  const threads = (of: Map<number, bigint>, byte: number): number[] =>
    [...of]
      .filter(([, bytes]) => ((bytes >> BigInt(byte)) & 1n) === 1n)
      .map(([thread]) => thread)
      .sort((a, b) => a - b)
  return Array.from({ length: 64 }, (_, byte) => ({
    writers: threads(writers, byte),
    readers: threads(readers, byte),
  }))
}

/** Events from code that writes to code that reads or overwrites. */
export interface Flow {
  kind: LineKind
  fromPlace: number
  toPlace: number
  fromThreads: number[]
  toThreads: number[]
  fromBytes: bigint
  toBytes: bigint
  count: number
  truly: number
  falsely: number
}

/** The flows of a line, the strongest first. */
export function flows(all: LineEvent[], wanted: Wanted): Flow[] {
  const found = new Map<string, Flow & { froms: Set<number>; tos: Set<number> }>()
  for (const event of all) {
    if (!wanted(event)) continue
    const key = `${event.kind} ${event.fromPlace} ${event.toPlace}`
    let flow = found.get(key)
    if (!flow) {
      const { kind, fromPlace, toPlace } = event
      const sums = { fromBytes: 0n, toBytes: 0n, count: 0, truly: 0, falsely: 0 }
      const threads = { fromThreads: [], toThreads: [], froms: new Set<number>(), tos: new Set<number>() }
      flow = { kind, fromPlace, toPlace, ...sums, ...threads }
      found.set(key, flow)
    }
    flow.froms.add(event.from)
    flow.tos.add(event.to)
    flow.fromBytes |= event.fromBytes
    flow.toBytes |= event.toBytes
    flow.count += event.count
    if (event.sharing === 'true') flow.truly += event.count
    if (event.sharing === 'false') flow.falsely += event.count
  }
  const sorted = (of: Set<number>): number[] => [...of].sort((a, b) => a - b)
  return [...found.values()]
    .map((flow) => ({ ...flow, fromThreads: sorted(flow.froms), toThreads: sorted(flow.tos) }))
    .sort((a, b) => b.count - a.count)
}

/** The matrix of the events that are wanted. */
export function lineMatrix(all: LineEvent[], threads: number, wanted: Wanted): SparseMatrix {
  const cells = new Map<number, bigint>()
  for (const event of all) {
    if (!wanted(event)) continue
    const key = event.from * threads + event.to
    cells.set(key, (cells.get(key) ?? 0n) + BigInt(event.count))
  }
  const keys = [...cells.keys()].sort((a, b) => a - b)
  return new SparseMatrix(
    threads,
    Uint32Array.from(keys, (key) => Math.floor(key / threads)),
    Uint32Array.from(keys, (key) => key % threads),
    BigUint64Array.from(keys, (key) => cells.get(key)!),
  )
}

/** `0–7 16`: the offsets of a set of bytes. */
export function ranges(bytes: bigint): string {
  const runs: string[] = []
  let first = -1
  for (let byte = 0; byte <= 64; byte++) {
    const set = byte < 64 && ((bytes >> BigInt(byte)) & 1n) === 1n
    if (set && first < 0) first = byte
    if (!set && first >= 0) {
      runs.push(first === byte - 1 ? `${first}` : `${first}–${byte - 1}`)
      first = -1
    }
  }
  return runs.join(' ')
}

/** `T1`, `T0, T2, T4–T7`, `23 threads`. */
export function threadList(threads: number[]): string {
  const runs: [number, number][] = []
  for (const thread of threads) {
    const last = runs[runs.length - 1]
    if (last && last[1] === thread - 1) last[1] = thread
    else runs.push([thread, thread])
  }
  if (runs.length > 3) return `${threads.length} threads`
  return runs.map(([a, b]) => (a === b ? `T${a}` : b === a + 1 ? `T${a}, T${b}` : `T${a}–T${b}`)).join(', ')
}

/** `app.c:31`, or as much as is known of where the code is. */
export function whereabouts(place: Place): string {
  const base = (path: string): string => path.slice(path.lastIndexOf('/') + 1)
  if (place.file) return place.line > 0 ? `${base(place.file)}:${place.line}` : base(place.file)
  const offset = `0x${place.offset.toString(16)}`
  if (place.module) return `${base(place.module)}+${offset}`
  return place.offset > 0 ? offset : 'unknown code'
}
