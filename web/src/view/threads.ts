// The thread table: sortable, follows the focus.
import { startOf } from '../model/data'
import { duration, grouped, short } from '../model/numbers'
import type { Findings, Thread } from '../model/page-data'
import { inFocus, type Store } from '../state'
import { card, el } from './dom'

interface Column {
  title: string
  /** Sort key. */
  key: (thread: Thread) => number | string
  text: (thread: Thread) => string
  numeric: boolean
}

const COLUMNS: Column[] = [
  { title: 'thread', key: (t) => t.id, text: (t) => `T${t.id}`, numeric: false },
  { title: 'name', key: (t) => t.name, text: (t) => t.name, numeric: false },
  { title: 'started in', key: startOf, text: startOf, numeric: false },
  { title: 'loads', key: (t) => t.loads, text: (t) => short(t.loads), numeric: true },
  { title: 'stores', key: (t) => t.stores, text: (t) => short(t.stores), numeric: true },
  { title: 'gives', key: (t) => t.talk_out, text: (t) => grouped(t.talk_out), numeric: true },
  { title: 'takes', key: (t) => t.talk_in, text: (t) => grouped(t.talk_in), numeric: true },
]

/** Where accesses were not counted. */
const SAMPLED: Column[] = [
  ...COLUMNS.slice(0, 3),
  { title: 'CPU time', key: (t) => t.cpu_ns, text: (t) => duration(t.cpu_ns / 1e9), numeric: true },
  ...COLUMNS.slice(5),
]

/** Instead of both directions, where there are none. */
const UNDIRECTED: Column = {
  title: 'pairs',
  key: (t) => t.talk_out + t.talk_in,
  text: (t) => grouped(t.talk_out + t.talk_in),
  numeric: true,
}

function columnsFor(findings: Findings): Column[] {
  const placement = findings.placement
  const known = findings.measured.sampled ? SAMPLED : COLUMNS
  const columns = findings.talk.kind === 'undirected' ? [...known.slice(0, -2), UNDIRECTED] : known
  if (!placement) return columns
  const [before, after] = [placement.layouts[0]!, placement.layouts[placement.layouts.length - 1]!]
  const place = (layout: typeof before): Column => ({
    title: layout.policy,
    key: (t) => layout.pu_os[t.id] ?? -1,
    text: (t) => (layout.pu_os[t.id] == null ? '–' : `P#${layout.pu_os[t.id]}`),
    numeric: true,
  })
  return [...columns, place(before), place(after)]
}

export function threads(findings: Findings, store: Store): HTMLElement {
  const section = card('Threads', 'threads')
  const columns = columnsFor(findings)
  const rows = findings.threads.map((thread) => row(thread, columns, store))
  const body = el('tbody', {}, ...rows)
  let sorted = { column: 0, descending: false }
  const heads = columns.map((column, index) => {
    const button = el('button', { type: 'button' }, column.title)
    const head = el('th', { scope: 'col', class: column.numeric ? 'number' : '' }, button)
    button.addEventListener('click', () => {
      const descending = sorted.column === index ? !sorted.descending : column.numeric
      sorted = { column: index, descending }
      heads.forEach((h) => h.removeAttribute('aria-sort'))
      head.setAttribute('aria-sort', descending ? 'descending' : 'ascending')
      body.append(...order(findings.threads, column, descending).map((id) => rows[id]!))
    })
    return head
  })
  heads[0]!.setAttribute('aria-sort', 'ascending')
  store.on(['focus'], ({ focus }) => {
    rows.forEach((r, thread) => r.classList.toggle('on', inFocus(focus, thread)))
  })
  const table = el('table', {}, el('thead', {}, el('tr', {}, ...heads)), body)
  section.append(el('div', { class: 'scroll' }, table))
  return section
}

/** Ids of the threads, sorted by a column; equal ones by id. */
export function order(threads: Thread[], column: Pick<Column, 'key'>, descending: boolean): number[] {
  const sorted = [...threads].sort((a, b) => {
    const [x, y] = [column.key(a), column.key(b)]
    const compared = typeof x === 'number' && typeof y === 'number' ? x - y : `${x}`.localeCompare(`${y}`)
    return (descending ? -compared : compared) || a.id - b.id
  })
  return sorted.map((thread) => thread.id)
}

function row(thread: Thread, columns: Column[], store: Store): HTMLTableRowElement {
  const cells = columns.map((column) => {
    const text = column.text(thread)
    return el('td', { class: column.numeric ? 'number' : 'text', title: text }, text)
  })
  const line = el('tr', {}, ...cells)
  line.addEventListener('pointerenter', () => store.set({ focus: { from: [thread.id], to: [] } }))
  line.addEventListener('pointerleave', () => store.set({ focus: null }))
  return line
}
