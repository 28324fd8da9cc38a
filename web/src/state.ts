// What the reader has chosen, and who wants to know. Views subscribe and redraw themselves.
import type { ScaleKind, Theme } from './model/scale'
import type { Selection } from './selection'

export type Order = 'id' | 'place' | 'cluster'

/** The threads under the pointer: a cell or an edge (both), or one thread. */
export interface Focus {
  from: number[]
  to: number[]
}

export interface State extends Selection {
  /** An object that was chosen: its rank. */
  object: number | null
  scale: ScaleKind
  order: Order
  /** Index into the layouts. */
  layout: number
  /** Whether the first and the last layout are drawn side by side. */
  beside: boolean
  theme: Theme
  focus: Focus | null
}

type Listener = (state: State, changed: ReadonlySet<keyof State>) => void

export class Store {
  private readonly listeners: Listener[] = []

  constructor(private current: State) {}

  get state(): State {
    return this.current
  }

  set(change: Partial<State>): void {
    const keys = (Object.keys(change) as (keyof State)[]).filter((key) => change[key] !== this.current[key])
    if (keys.length === 0) return
    this.current = { ...this.current, ...change }
    const changed = new Set(keys)
    for (const listener of this.listeners) listener(this.current, changed)
  }

  /** Calls `listener` when one of `keys` changes. */
  on(keys: (keyof State)[], listener: (state: State) => void): void {
    this.listeners.push((state, changed) => {
      if (keys.some((key) => changed.has(key))) listener(state)
    })
  }
}

/** What stands out: what is under the pointer, else what was picked. */
export function standsOut({ focus, pick }: State): Focus | null {
  return focus ?? (pick && { from: pick.from, to: pick.to ?? [] })
}

/** Whether a thread is in the focus. */
export function inFocus(focus: Focus | null, thread: number): boolean {
  return focus !== null && (focus.from.includes(thread) || focus.to.includes(thread))
}

/** Whether an edge is in the focus: between the focused threads, or of the one focused thread. */
export function edgeInFocus(focus: Focus | null, from: number, to: number): boolean {
  if (focus === null) return false
  if (focus.to.length === 0) return focus.from.includes(from) || focus.from.includes(to)
  const between = (a: number, b: number): boolean => focus.from.includes(a) && focus.to.includes(b)
  return between(from, to) || between(to, from)
}
