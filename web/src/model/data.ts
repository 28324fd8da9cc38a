// The data in the page, decoded: matrices, time and events ready to be summed up. What the page holds
// has the types of `page-data.ts`, which are generated from those that crates/report writes. Counts are
// 64 bits wide: exact as bigint, as number where only a drawing needs them.
import { bothWays, decodeLayer, type Layer, matrixOf } from './cells'
import { decodeLines, type LineData } from './lines'
import type { SparseMatrix } from './matrix'
import type { CommKind, Findings, PageData, TalkKind, Thread } from './page-data'
import { decodePages, type PageRows } from './pages'
import { Varints } from './varints'

/** What the matrix can show. `transfers`: all cache-line transfers, RAW and WAW together. */
export type Kind = CommKind | TalkKind

/** Whether an event, or a layer of events, is one of a kind. */
export function isOf(kind: Kind, event: { kind: string }): boolean {
  return event.kind === kind || (kind === 'transfers' && (event.kind === 'raw' || event.kind === 'waw'))
}

/** Time in bins, and what happened in them. */
export interface Time {
  slices: number
  slicesPerBin: number
  /** The program's progress at the start of each bin and at the end of the last, in `unit`. */
  bounds: number[]
  /** Seconds of the program's own time; where that is not known, percent of the axis. */
  unit: 's' | '%'
  /** How many of these bins a bin of the matrices sums up. */
  binsPerCell: number
  layers: Layer[]
  activity: { what: string; threadsPerRow: number; rows: number; values: number[] }
}

export interface Data {
  findings: Findings
  time: Time
  lines: LineData
  /** The pages of the objects in `findings.memory`; empty where pages were not recorded. */
  pages: PageRows[]
  /** The communication of the whole run. */
  talk: SparseMatrix
}

/** Decodes the text of the page's data element; throws an Error that says what is wrong. */
export function parseData(text: string): Data {
  const raw = JSON.parse(text) as PageData
  const { findings, time } = raw
  const threads = findings.threads.length
  const layers = time.layers.map((layer) => decodeLayer(layer, threads))
  const values = new Varints(time.activity.values).rest()
  const { kind } = findings.talk
  const own = findings.measured.own_time
  const talk = matrixOf(
    layers.filter((layer) => isOf(kind, layer)),
    threads,
    null,
  )
  return {
    findings,
    time: {
      slices: time.slices,
      slicesPerBin: time.slices_per_bin,
      bounds: time.bounds.map((part) => part * (own?.seconds ?? 100)),
      unit: own ? 's' : '%',
      binsPerCell: time.bins_per_cell,
      layers,
      activity: {
        what: time.activity.what,
        threadsPerRow: time.activity.threads_per_row,
        rows: Math.ceil(threads / time.activity.threads_per_row),
        values,
      },
    },
    lines: decodeLines(raw.hot),
    pages: decodePages(raw.pages),
    talk: kind === 'undirected' ? bothWays(talk) : talk,
  }
}

/** A moment of the program's progress. */
export function moment(at: number, { unit }: Time): string {
  return unit === 's' ? `${at.toFixed(3)} s` : `${at.toFixed(1)} %`
}

/** What the axis of progress shows, for people. */
export function axisWords({ findings, time }: Data): string {
  if (time.unit === 's') return "the program's own time"
  return findings.measured.axis === 'work' ? "the program's work" : 'the recorded run'
}

/** Bins of time, and bins of the matrices. */
export function binsOf(time: Time): { fine: number; coarse: number } {
  const fine = time.bounds.length - 1
  return { fine, coarse: Math.ceil(fine / time.binsPerCell) }
}

/** The kinds of events that the profile can show. */
export function kindsOf(findings: Findings): Kind[] {
  return findings.talk.kind === 'undirected' ? ['undirected'] : ['transfers', 'raw', 'waw', 'invalidation']
}

/** Whether true and false sharing were told apart. */
export function knowsSharing({ talk }: Findings): boolean {
  return talk.raw_true + talk.raw_false + talk.waw_true + talk.waw_false > 0
}

/** What each kind counts and how its axes are called. */
export const KIND_WORDS: Record<Kind, { label: string; from: string; to: string; doc: string }> = {
  transfers: {
    label: 'transfers (RAW + WAW)',
    from: 'previous writer',
    to: 'thread that takes',
    doc: 'first read of, or write over, what another thread wrote',
  },
  raw: {
    label: 'reads',
    from: 'writer thread',
    to: 'reader thread',
    doc: 'first read of what another thread wrote',
  },
  waw: {
    label: 'overwrites',
    from: 'previous writer',
    to: 'writer thread',
    doc: 'write over what another thread wrote',
  },
  invalidation: {
    label: 'invalidations',
    from: 'writer thread',
    to: 'invalidated reader',
    doc: 'write to what another thread has read',
  },
  undirected: {
    label: 'pairs',
    from: 'one thread',
    to: 'other thread',
    doc: "access to what another thread accessed before (numalize's definition)",
  },
}

/** What is counted: cache lines, or blocks of another size. */
export function unit(blockBytes: number): string {
  return blockBytes === 64 ? 'cache lines' : `blocks of ${blockBytes} bytes`
}

/** How a thread was started, for people. */
export function startOf(thread: Thread): string {
  return thread.start_symbol || thread.start_routine || (thread.id === 0 ? '(initial thread)' : '–')
}

/** `T3 worker`; the name only if there is one. */
export function threadName(thread: Thread): string {
  return thread.name ? `T${thread.id} ${thread.name}` : `T${thread.id}`
}
