// Where threads communicate under each placement, as stacked bars, and what every policy's placement costs
// beside the bound that no placement undercuts.
import { grouped, nanoseconds, percent, relativeCost, short } from '../model/numbers'
import type { LevelShare, Placement, PolicyCost } from '../model/page-data'
import { levelColours, textOn } from '../model/scale'
import { el } from './dom'

/** Colours by name of level. */
export type LevelKey = Map<string, string>

/** Colours of the levels that any layout uses, nearest first. */
export function levelKey(placement: Placement): LevelKey {
  const ran = placement.ran ? [placement.ran] : []
  const all = [placement.chance, ...ran, ...placement.layouts].map(({ shares }) => shares)
  const longest = all.reduce((a, b) => (b.length > a.length ? b : a))
  const names = longest.map((share) => share.level)
  const colours = levelColours(names.length)
  return new Map(names.map((name, i) => [name, colours[i]!]))
}

export function caption(placement: Placement, index: number): string {
  const { policy } = placement.layouts[index]!
  if (index === 0) return `before: ${policy}`
  return index === placement.layouts.length - 1 ? `after: ${policy}` : policy
}

function stack(shares: LevelShare[], key: LevelKey): HTMLElement {
  const shown = shares.filter(({ share }) => share > 0)
  const words = shown.map(({ level, share }) => `${level} ${percent(share)}`).join(', ')
  const bar = el('div', { class: 'stackbar', role: 'img', 'aria-label': words })
  for (const { level, events, share } of shown) {
    const text = percent(share)
    const title = `${level}: ${grouped(events)}, ${text}`
    const part = el('span', { title }, share >= 0.07 ? text : '')
    const colour = key.get(level)!
    part.style.flexGrow = `${share}`
    part.style.background = colour
    part.style.color = textOn(colour)
    bar.append(part)
  }
  return bar
}

/** Stacked bars: of each layout's communication, what goes where. */
export function shares(placement: Placement, key: LevelKey): HTMLElement {
  const { chance, ran } = placement
  const bars = placement.layouts.map((layout, i) => ({ ...layout, name: caption(placement, i) }))
  const before = [{ ...chance, name: 'by chance' }, ...(ran ? [{ ...ran, name: 'as it ran' }] : [])]
  const rows = [...before, ...bars].map(({ name, shares, cost }) => {
    const relative = chance.cost > 0 ? relativeCost(cost / chance.cost) : ''
    return el(
      'tr',
      {},
      el('th', { scope: 'row' }, name),
      el('td', { class: 'grow' }, stack(shares, key)),
      el('td', { class: 'number' }, relative),
    )
  })
  const head = el(
    'tr',
    {},
    el('th', {}),
    el('th', { scope: 'col' }, 'where threads communicate'),
    el('th', { class: 'number', scope: 'col' }, 'predicted cost'),
  )
  return el(
    'div',
    { class: 'shares' },
    el('table', {}, el('thead', {}, head), el('tbody', {}, ...rows)),
    keys(placement, key),
    el(
      'p',
      { class: 'note' },
      'Of the whole run. By chance: the average of all even placements, what an unplaced run can look like.',
    ),
    ...(ran ? [el('p', { class: 'note' }, ran.text)] : []),
  )
}

/** Colours of the levels, and what an event costs there. */
function keys(placement: Placement, key: LevelKey): HTMLElement {
  const unit = placement.cost_unit ? ` ${placement.cost_unit}` : ''
  const cost = new Map(placement.levels.map(({ name }, i) => [name, placement.level_costs[i]!]))
  const parts = [...key].map(([level, colour]) => {
    const swatch = el('i', { class: 'swatch' })
    swatch.style.background = colour
    const price = cost.get(level)
    const text = price === undefined ? level : `${level}, ${short(price)}${unit}`
    return el('span', { class: 'key' }, swatch, text)
  })
  return el('p', { class: 'keys' }, ...parts)
}

/** A total cost with its unit: nanoseconds as a time. */
export function costText(cost: number, unit: string): string {
  return unit === 'ns' ? nanoseconds(cost) : short(cost)
}

function ratio(value: number | null): string {
  if (value === null) return '–'
  return value >= 100 ? '>100' : value.toFixed(2)
}

/** What sets a policy apart. */
export function remark(row: PolicyCost): string {
  const words: string[] = []
  if (row.chosen) words.push('chosen')
  if (row.moved === null) words.push('unbound: expected')
  if (row.shares_needlessly) {
    words.push(row.shared_cores === 1 ? 'shares a core' : `shares ${row.shared_cores} cores`)
  }
  return words.join(', ')
}

/** All policies by cost, and the bound below them. */
export function policies({ policies, cost_unit, layouts }: Placement): HTMLElement {
  const { list, lower_bound: bound, left_out } = policies
  const most = Math.max(bound, ...list.map(({ cost }) => cost))
  const width = (cost: number): string => `${most > 0 ? (100 * cost) / most : 0}%`
  const bar = (cost: number, kind: string): HTMLElement => {
    const fill = el('i', { class: kind })
    fill.style.width = width(cost)
    const limit = el('b', { title: 'lower bound' })
    limit.style.left = width(bound)
    return el('div', { class: 'costbar', 'aria-hidden': 'true' }, fill, limit)
  }
  const number = (text: string): HTMLElement => el('td', { class: 'number' }, text)
  const rows = list.map((row) =>
    el(
      'tr',
      { class: row.chosen ? 'chosen' : undefined },
      el('th', { scope: 'row' }, row.policy),
      el('td', { class: 'grow' }, bar(row.cost, row.shares_needlessly ? 'unfair' : '')),
      number(costText(row.cost, cost_unit)),
      number(ratio(row.to_best)),
      number(ratio(row.to_bound)),
      number(row.moved === null ? '–' : `${row.moved}`),
      el('td', { class: 'remark' }, remark(row)),
    ),
  )
  const best = list[0]?.cost ?? 0
  rows.push(
    el(
      'tr',
      { class: 'bound' },
      el('th', { scope: 'row' }, 'lower bound'),
      el('td', { class: 'grow' }, bar(bound, 'limit')),
      number(costText(bound, cost_unit)),
      number(ratio(best > 0 ? bound / best : null)),
      number(ratio(bound > 0 ? 1 : null)),
      number(''),
      el('td', { class: 'remark' }, 'no placement costs less'),
    ),
  )
  const titles = ['policy', '', 'cost', '× best', '× bound', 'moved', '']
  const head = titles.map((title, i) => el('th', { scope: 'col', class: i >= 2 && i <= 5 ? 'number' : '' }, title))
  const notes = [
    `Cost: the sum over all events of what each costs on its way. Moved: threads on another PU than by ${layouts[0]!.policy}.`,
  ]
  if (left_out.length > 0) {
    const names = left_out.map(({ policy }) => policy).join(', ')
    notes.push(`Left out, because they take long for this many threads: ${names}.`)
  }
  return el(
    'div',
    { class: 'policies' },
    el('div', { class: 'wide' }, el('table', {}, el('thead', {}, el('tr', {}, ...head)), el('tbody', {}, ...rows))),
    ...notes.map((text) => el('p', { class: 'note' }, text)),
  )
}
