// What causes the transfers, and what to change: first the weightiest, each with the code that meets
// there and a way to its object.
import type { Data } from '../model/data'
import { threadList } from '../model/lines'
import { grouped, percent } from '../model/numbers'
import type { Cause, CauseKind, Cost, Part, Side } from '../model/page-data'
import type { Store } from '../state'
import { card, el } from './dom'

export const KINDS: Record<CauseKind, { text: string; badge: string }> = {
  false_sharing: { text: 'false sharing', badge: 'badge false' },
  contended: { text: 'contended', badge: 'badge true' },
  one_writer: { text: 'one writer', badge: 'badge true' },
  transferred: { text: 'transferred', badge: 'badge' },
  synchronization: { text: 'synchronisation', badge: 'badge' },
}

export function causes(data: Data, store: Store): HTMLElement | null {
  const list = data.findings.causes
  if (list.length === 0) return null
  const section = card('What causes the transfers', 'causes')
  section.append(...list.map((cause, index) => entry(data, cause, index === 0, store)))
  return section
}

/** False sharing that is not there, but would be on other machines, if memory began elsewhere, or with more threads. */
export function latent(data: Data): HTMLElement | null {
  const list = data.findings.latent
  if (list.length === 0) return null
  const section = card('Not here, but elsewhere: false sharing that would appear', 'latent')
  section.append(el('ul', {}, ...list.map((one) => el('li', {}, one.text))))
  return section
}

function entry(data: Data, cause: Cause, open: boolean, store: Store): HTMLElement {
  const { text, badge } = KINDS[cause.kind]
  const summary = el(
    'summary',
    {},
    el('span', { class: badge }, text),
    ' ',
    el('b', {}, cause.title),
    ` ${percent(cause.share)} of the transfers; ${costs(cause.cost)}`,
  )
  const parts: Node[] = [
    el('p', {}, `${cause.evidence}.${caveat(cause.cost)}`),
    el('p', { class: 'change' }, cause.advice),
  ]
  const rank = data.findings.objects?.list.findIndex((object) => object.row === cause.object_row) ?? -1
  if (rank >= 0) {
    const button = el('button', { type: 'button', class: 'chip' }, 'Show its bytes')
    button.addEventListener('click', () => {
      store.set({ object: rank })
      document.querySelector('.card.objects')?.scrollIntoView({ block: 'start' })
    })
    parts.push(button)
  }
  parts.push(el('div', { class: 'wide' }, sides(cause.sides)))
  return el('details', open ? { open: '' } : {}, summary, ...parts)
}

/** What transfers cost, in words. */
export function costs({ cpu_share, low, high, worth, not_known, without, gain }: Cost): string {
  if (cpu_share === null) return 'what it costs is not known'
  const apart = without ? ` without ${without}` : ''
  const range =
    low !== null && high !== null
      ? ` (${percent(low)} to ${percent(high)}, an estimate${apart})`
      : `, an estimate${apart}`
  const hardly = worth || not_known ? '' : without ? ': alone hardly worth a change' : ': hardly worth a change'
  const times = (gain: number) => (gain < 10 ? gain.toFixed(1) : '10 or more')
  const faster =
    gain && worth && gain.times >= 1.1
      ? `: ${times(gain.times)} times as fast without them (${times(gain.low)} to ${times(gain.high)})`
      : ''
  return `about ${percent(cpu_share)} of the processor time${range}${hardly}${faster}`
}

/** That threads hardly ran at the same time, where they did. */
function caveat({ at_once, not_known, without }: Cost): string {
  if (at_once === null) return not_known ? ` What it costs with ${without} is not known.` : ''
  const more = not_known ? 'what it costs when they do is not known' : 'it may cost more when they do'
  return ` Its threads ran at the same time for ${percent(at_once)} of the time in which two of them could: ${more}.`
}

/** What a side accesses; apart from that what it only reads. */
function bytes(side: Side): (string | HTMLElement)[] {
  const fields = (part: Part) => (part.fields.length > 0 ? [el('small', {}, part.fields.join(', '))] : [])
  const read = side.only_reads
  const reads = read ? [el('small', {}, `reads ${read.bytes}`), ...fields(read)] : []
  return [side.bytes, ...fields(side), ...reads]
}

function sides(list: Side[]): HTMLElement {
  const titles = ['threads', 'do', 'bytes', 'at', 'called from', 'events']
  const head = titles.map((title, i) => el('th', { scope: 'col', class: i === 5 ? 'number' : '' }, title))
  const rows = list.map((side) => {
    const where = side.file ? `${side.file.slice(side.file.lastIndexOf('/') + 1)}:${side.line}` : 'unknown line'
    const name = side.function ? [el('small', {}, side.function)] : []
    return el(
      'tr',
      {},
      el('td', {}, threadList(side.threads)),
      el('td', {}, side.atomically ? `${side.does} atomically` : side.does),
      el('td', {}, ...bytes(side)),
      el('td', { class: 'code' }, el('code', {}, where), ...name),
      el('td', {}, side.callers.slice(0, 2).join(', from ') || '–'),
      el('td', { class: 'number' }, grouped(side.events)),
    )
  })
  return el('table', {}, el('thead', {}, el('tr', {}, ...head)), el('tbody', {}, ...rows))
}
