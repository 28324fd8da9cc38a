// What the page is filtered by, and buttons to lift each filter.
import { type Data, moment } from '../model/data'
import { threadList } from '../model/lines'
import { stretch } from '../selection'
import type { State, Store } from '../state'
import { el } from './dom'

export function filters(data: Data, store: Store): HTMLElement {
  const bar = el('div', { class: 'filters', role: 'status', 'aria-label': 'Filters' })
  const draw = (): void => {
    const chips = describe(data, store.state).map(([key, text]) => {
      const chip = el('button', { type: 'button', class: 'chip', title: 'Lift this filter' }, `${text} ✕`)
      chip.addEventListener('click', () => store.set({ [key]: null }))
      return chip
    })
    bar.hidden = chips.length === 0
    bar.replaceChildren(...(chips.length > 0 ? ['Filtered by', ...chips] : []))
  }
  draw()
  store.on(['pick', 'line', 'range', 'kind'], draw)
  return bar
}

/** The filters that are on, each with its key in the state. */
export function describe(data: Data, state: State): ['pick' | 'line' | 'range', string][] {
  const list: ['pick' | 'line' | 'range', string][] = []
  if (state.pick) {
    const { from, to, both } = state.pick
    const arrow = both || state.kind === 'undirected' ? '↔' : '→'
    list.push(['pick', `${threadList(from)} ${arrow} ${to ? threadList(to) : 'any thread'}`])
  }
  if (state.line !== null) {
    const line = data.findings.lines!.list[state.line]!
    list.push(['line', line.object || line.address])
  }
  if (state.range) {
    const [start, end] = stretch(data, state.range)
    list.push(['range', `${moment(start, data.time)} to ${moment(end, data.time)}`])
  }
  return list
}
