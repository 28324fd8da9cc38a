// The data in the page, as crates/report writes it (page.rs, findings.rs, layouts.rs), and how it
// is decoded. Counts are 64 bits wide: exact as bigint, as number where only a drawing needs them.
import { bothWays, decodeLayer, type EncodedLayer, type Layer, matrixOf } from './cells'
import { decodeLines, type EncodedLines, type LineData } from './lines'
import type { SparseMatrix } from './matrix'
import { Varints } from './varints'

/** `transfers`: all cache-line transfers, raw and waw together. */
export const KINDS = ['transfers', 'raw', 'waw', 'invalidation', 'undirected'] as const
export type Kind = (typeof KINDS)[number]

/** Whether an event, or a layer of events, is one of a kind. */
export function isOf(kind: Kind, event: { kind: string }): boolean {
  return event.kind === kind || (kind === 'transfers' && (event.kind === 'raw' || event.kind === 'waw'))
}

export interface Thread {
  id: number
  name: string
  parent: number | null
  start_routine: string
  start_symbol: string
  loads: number
  cpu_ns: number
  stores: number
  talk_out: number
  talk_in: number
}

export interface Pair {
  a: number
  b: number
  a_to_b: number
  b_to_a: number
  share: number
}

export interface LevelShare {
  level: string
  events: number
  share: number
}

export interface Layout {
  policy: string
  cost: number
  pu_logical: (number | null)[]
  pu_os: (number | null)[]
  place: string[]
  shares: LevelShare[]
}

export interface MachineNode {
  kind: string
  label: string
  pu?: number
  allowed: boolean
  children?: MachineNode[]
}

/** A level at which the machine branches: for each entry of `Placement.pus` the part it is in. */
export interface Level {
  name: string
  part: number[]
}

/** What a policy's placement costs. */
export interface PolicyCost {
  policy: string
  cost: number
  /** Null where the best, or the bound, is 0. */
  to_best: number | null
  to_bound: number | null
  /** Threads on another PU than before; null where nothing is bound. */
  moved: number | null
  shared_cores: number
  shares_needlessly: boolean
  chosen: boolean
}

/** Best first; those that share cores needlessly last. */
export interface Policies {
  list: PolicyCost[]
  lower_bound: number
  left_out: { policy: string; reason: string }[]
}

export interface Placement {
  machine: string
  /** Whether it is another one than the profile was recorded on. */
  elsewhere: boolean
  tree: MachineNode
  /** Logical numbers of the PUs that may be used. */
  pus: number[]
  /** From the whole machine down. */
  levels: Level[]
  /** Of each level, what one event costs there. */
  level_costs: number[]
  /** The first is what launchers do, the last the recommendation. */
  layouts: Layout[]
  /** The average of all placements: what an unplaced run can look like. */
  chance: { cost: number; shares: LevelShare[] }
  policies: Policies
  /** Of one event, `ns`, or empty. */
  cost_unit: string
}

/** Events with the same evidence: `exact`, `sampled` or `inferred`; words may be added. */
export interface EvidenceShare {
  evidence: string
  events: number
  hits: number
}

/** Events by sharing. */
export interface Split {
  true: number
  false: number
  unknown: number
}

export interface HotLine {
  address: string
  region: string
  object: string
  events: number
  share: number
  evidence: EvidenceShare[]
  raw: Split
  waw: Split
}

export interface Lines {
  all: number
  events: number
  elsewhere: number
  listed_share: number
  list: HotLine[]
}

export interface Advice {
  kind: 'false_sharing' | 'contended'
  share: number
  text: string
}

/** A process that the program started. */
export interface ChildProcess {
  number: number
  command: string[]
  threads: number
  profile: string | null
  /** Why it was not recorded. */
  unrecorded_text: string | null
  /** Sampled because it was named; left out where it was not. */
  named?: boolean
}

/** Metrics of a stretch of the run; of the page's bins, averages over their slices. */
export interface SliceMetrics {
  heterogeneity: number
  balance: number
  amount: number | null
  ratio: number | null
}

/** A stretch of the run with a steady heterogeneity. */
export interface Phase {
  start: number
  end: number
  events: number
  pattern: string | null
}

/** How far the amounts of a sampled profile can be trusted; see `analysis::Reliability`. */
export interface Reliability {
  rest_on: 'counting' | 'accesses' | 'waiting'
  /** Whether the hits are enough to say who communicates with whom. */
  enough: boolean
  text: string[]
}

export interface Findings {
  version: number
  /** Null: amounts were counted. */
  reliability: Reliability | null
  verdict: { shape: string; headline: string; details: string[] }
  program: {
    command: string[]
    directory: string
    host: string
    started: string
    exit_code: number | null
    exit_signal: number | null
  }
  talk: {
    kind: Kind
    /** The same for people: "cache-line transfers (RAW + WAW)". */
    what: string
    events: number
    events_per_second: number | null
    events_per_thousand_accesses: number | null
    raw: number
    waw: number
    invalidation: number
    undirected: number
    raw_true: number
    raw_false: number
    waw_true: number
    waw_false: number
    estimate: Estimate | null
    evidence: EvidenceShare[]
  }
  communication: {
    pattern: { pattern: string; confidence: number }
    phases: Phase[]
    slices: SliceMetrics[]
  }
  /** The same in sentences, the pattern first; empty when nobody talks. */
  communication_text: string[]
  advice: Advice[]
  lines: Lines | null
  code: { all: number; events: number } | null
  pairs: Pair[]
  threads: Thread[]
  placement: Placement | null
  processes: ChildProcess[]
  /** Codes with data, and the sentence. */
  warnings: { code: string; text: string }[]
  measured: {
    mode: string
    counted: string
    block_bytes: number
    slice_ns: number
    wall_seconds: number
    cpu_seconds: number
    loads: number
    stores: number
    cache_flushes: number
    tool: string
    schema_version: number
    /** What was sampled, and what amounts rest on; null in exact profiles. */
    sampled: Sampling | null
  }
}

/** How a profile was sampled; see `profile::Sampling`. */
export interface Sampling {
  source: string
  reason: string
  rate: number
  period: number
  samples: number
  decoded: number
  hits: number
  lost: number
  throttled: number
  basis:
    | { by: 'counters'; event: string }
    | { by: 'latency'; transfer_ns: number; source: string }
    | { by: 'period' }
  attached: boolean
}

/** How well an estimated number of events is known. */
export interface Estimate {
  hits: number
  low: number
  high: number
}

/** Time in bins, and what happened in them. */
export interface Time {
  slices: number
  slicesPerBin: number
  /** Start of each bin and end of the last, seconds. */
  bounds: number[]
  /** How many of these bins a bin of the matrices sums up. */
  binsPerCell: number
  layers: Layer[]
  activity: { what: string; threadsPerRow: number; rows: number; values: number[] }
}

export interface Data {
  findings: Findings
  time: Time
  lines: LineData
  /** The talk of the whole run. */
  talk: SparseMatrix
}

/** Decodes the text of the page's data element; throws an Error that says what is wrong. */
export function parseData(text: string): Data {
  const raw = JSON.parse(text) as {
    findings: Findings
    time: {
      slices: number
      slices_per_bin: number
      bounds: number[]
      bins_per_cell: number
      layers: EncodedLayer[]
      activity: { what: string; threads_per_row: number; values: string }
    }
    hot: EncodedLines
  }
  const { findings, time } = raw
  const threads = findings.threads.length
  const layers = time.layers.map((layer) => decodeLayer(layer, threads))
  const values = new Varints(time.activity.values).rest()
  const { kind } = findings.talk
  const talk = matrixOf(layers.filter((layer) => isOf(kind, layer)), threads, null)
  return {
    findings,
    time: {
      slices: time.slices,
      slicesPerBin: time.slices_per_bin,
      bounds: time.bounds,
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
    talk: kind === 'undirected' ? bothWays(talk) : talk,
  }
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
