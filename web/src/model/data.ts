// The data in the page, as crates/report writes it (page.rs, findings.rs, layouts.rs), and how it
// is decoded. Counts are 64 bits wide: exact as bigint, as number where only a drawing needs them.
import { SparseMatrix } from './matrix'

export const KINDS = ['raw', 'waw', 'invalidation'] as const
export type Kind = (typeof KINDS)[number]

export interface Thread {
  id: number
  name: string
  parent: number | null
  start_routine: string
  start_symbol: string
  loads: number
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

export interface Placement {
  machine: string
  tree: MachineNode
  /** Logical numbers of the PUs that may be used. */
  pus: number[]
  /** From the whole machine down. */
  levels: Level[]
  /** The first is what launchers do, the last the recommendation. */
  layouts: Layout[]
  /** The average of all placements: what an unplaced run can look like. */
  chance: { cost: number; shares: LevelShare[] }
  /** Of one event, `ns`, or empty. */
  cost_unit: string
}

export interface Findings {
  version: number
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
    raw: number
    waw: number
    invalidation: number
    events_per_second: number | null
    events_per_thousand_loads: number | null
  }
  pairs: Pair[]
  threads: Thread[]
  placement: Placement | null
  warnings: string[]
  measured: {
    mode: string
    block_bytes: number
    wall_seconds: number
    cpu_seconds: number
    loads: number
    stores: number
    tool: string
    schema_version: number
  }
}

/** Sparse cells in base64: little-endian u32, u32, u64. */
interface EncodedMatrix {
  from: string
  to: string
  count: string
}

export interface Data {
  findings: Findings
  matrices: Record<Kind, SparseMatrix>
}

/** Decodes the text of the page's data element; throws an Error that says what is wrong. */
export function parseData(text: string): Data {
  const raw = JSON.parse(text) as {
    findings: Findings
    matrices: Record<Kind, EncodedMatrix>
  }
  const threads = raw.findings.threads.length
  const decode = (kind: Kind): SparseMatrix => {
    const { from, to, count } = raw.matrices[kind]
    return new SparseMatrix(
      threads,
      new Uint32Array(bytes(from)),
      new Uint32Array(bytes(to)),
      new BigUint64Array(bytes(count)),
    )
  }
  return {
    findings: raw.findings,
    matrices: {
      raw: decode('raw'),
      waw: decode('waw'),
      invalidation: decode('invalidation'),
    },
  }
}

function bytes(base64: string): ArrayBuffer {
  const text = atob(base64)
  const out = new Uint8Array(text.length)
  for (let i = 0; i < text.length; i++) out[i] = text.charCodeAt(i)
  return out.buffer
}

/** What each kind counts and how its axes are called. */
export const KIND_WORDS: Record<Kind, { label: string; from: string; to: string; doc: string }> = {
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
}

/** What is counted: cache lines, or blocks of another size. */
export function unit(blockBytes: number): string {
  return blockBytes === 64 ? 'cache lines' : `blocks of ${blockBytes} bytes`
}

/** How a thread was started, for people. */
export function startOf(thread: Thread): string {
  return thread.start_symbol || thread.start_routine || '(initial thread)'
}

/** `T3 worker`; the name only if there is one. */
export function threadName(thread: Thread): string {
  return thread.name ? `T${thread.id} ${thread.name}` : `T${thread.id}`
}
