// What became of each object since an earlier recording: before and after.
import { grouped } from '../model/numbers'
import type { ChangedObject, Changes, EventCount } from '../model/page-data'
import { card, el } from './dom'

/** Objects listed. */
const ROWS = 12

export function changes(found: Changes | null): HTMLElement | null {
  if (!found) return null
  const section = card('Before and after', 'changes')
  section.append(el('p', { class: 'detail' }, found.headline))
  if (found.list.length === 0) return section
  const unit = found.per_second ? ', per second' : ''
  const most = Math.max(1, ...found.list.flatMap(({ events }) => events.map((of) => of.events)))
  const titles = ['object', `events before${unit}`, 'after', 'of these false sharing', 'after', '']
  const head = titles.map((t, i) => el('th', { scope: 'col', class: i > 0 && i < 5 ? 'number' : '' }, t))
  const rows = found.list.slice(0, ROWS).map((object) => row(object, most))
  const table = el('table', {}, el('thead', {}, el('tr', {}, ...head)), el('tbody', {}, ...rows))
  section.append(el('div', { class: 'wide' }, table))
  const more = found.list.length - ROWS
  if (more > 0) section.append(el('p', { class: 'note' }, `and ${grouped(more)} more objects`))
  return section
}

function row({ object, events, false_sharing, change, false_change, text }: ChangedObject, most: number): HTMLElement {
  const amounts = [events[0], events[1], false_sharing[0], false_sharing[1]]
  const good = change === 'gone' || false_change === 'gone' || change === 'less'
  const bad = change === 'new' || false_change === 'new' || change === 'more'
  const kind = change === 'not-enough' ? '' : good ? ' true' : bad ? ' false' : ''
  return el(
    'tr',
    {},
    el('td', { class: 'name' }, object),
    ...amounts.map((amount) =>
      el('td', { class: 'number', title: interval(amount) }, bar(amount, most), number(amount)),
    ),
    el('td', {}, el('span', { class: `badge${kind}` }, text)),
  )
}

const number = ({ events }: EventCount): string => grouped(Math.round(events))

/** How well an estimate is known. */
function interval({ events, low, high }: EventCount): string {
  if (low === events && high === events) return ''
  return `${grouped(Math.round(low))} to ${grouped(Math.round(high))}, as far as chance goes`
}

/** How much it is, beside the largest. */
function bar({ events }: EventCount, most: number): HTMLElement {
  return el('span', { class: 'amount', style: `width: ${((60 * events) / most).toFixed(1)}px` })
}
