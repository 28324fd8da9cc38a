// Simulated placements: for each machine, where accesses were served, the load of controllers and links,
// time and energy, and which plan helps which code and data.
import { grouped, nanoseconds, percent } from '../model/numbers'
import type {
  SimulatedMachine,
  SimulatedPlan,
  SimulatedStall,
  SimulatedValue,
  SimulationPage,
} from '../model/page-data'
import { bars, differ, fastest, largestLoad, network, planName } from '../model/simulation'
import { card, el, svg } from './dom'

/** The page's head and cards. */
export function simulation(page: SimulationPage, tools: HTMLElement): HTMLElement[] {
  const head = el(
    'div',
    { class: 'top' },
    el('div', {}, el('p', { class: 'command' }, el('b', {}, page.command.join(' '))), el('h1', {}, title(page))),
    tools,
  )
  const cards = page.machines.flatMap(machine)
  if (page.notes.length > 0) {
    const notes = card('Notes', 'notes')
    notes.append(...page.notes.map((note) => el('p', { class: 'note' }, note)))
    cards.push(notes)
  }
  return [head, el('main', {}, ...cards)]
}

function title({ accesses, threads, machines }: SimulationPage): string {
  const on = machines.length === 1 ? 'one machine' : `${machines.length} machines`
  return `${grouped(accesses)} accesses of ${threads} ${threads === 1 ? 'thread' : 'threads'}, simulated on ${on}`
}

function machine(of: SimulatedMachine): HTMLElement[] {
  const cards = [times(of), served(of)]
  if (of.nodes.length > 1) cards.push(loads(of))
  const tables: [string, string, SimulatedStall[]][] = [
    ['Which plan helps which code', 'code', of.code],
    ['Which plan helps which data', 'data', of.data],
  ]
  for (const [title, kind, rows] of tables) {
    if (rows.length > 0) cards.push(stalls(title, kind, of.plans, rows))
  }
  return cards
}

function table(heads: string[], rows: HTMLElement[]): HTMLElement {
  const titles = heads.map((text, k) => el('th', { scope: 'col', class: k > 0 ? 'number' : '' }, text))
  const body = el('table', {}, el('thead', {}, el('tr', {}, ...titles)), el('tbody', {}, ...rows))
  return el('div', { class: 'wide' }, body)
}

function times({ name, description, plans }: SimulatedMachine): HTMLElement {
  const section = card(`Time and energy on ${name}`, 'simulated-times')
  section.append(el('p', { class: 'note' }, description))
  const best = fastest(plans)
  const longest = Math.max(...plans.map(({ time_ns }) => time_ns.value + (time_ns.half ?? 0)), Number.MIN_VALUE)
  const rows = plans.map((plan, k) => {
    const { time_ns, joules } = plan
    const is =
      k === best ? 'fastest' : differ(time_ns, plans[best]!.time_ns) ? slower(time_ns, plans[best]!.time_ns) : 'as fast'
    return el(
      'tr',
      {},
      el('td', { class: 'name' }, planName(plan, plans)),
      el('td', { class: 'number' }, timeBar(time_ns, longest), value(time_ns, nanoseconds)),
      el('td', { class: 'number' }, value(joules, energy)),
      el('td', {}, el('span', { class: k === best ? 'badge true' : 'badge' }, is)),
    )
  })
  section.append(table(['plan', 'time', 'energy', ''], rows))
  if (plans.some(({ time_ns }) => time_ns.half !== null)) {
    const text =
      "Means of several interleavings; '±' is half an interval at 95 %. Plans whose intervals overlap are as fast."
    section.append(el('p', { class: 'note' }, text))
  }
  return section
}

const slower = (a: SimulatedValue, best: SimulatedValue): string => `${percent(a.value / best.value - 1)} slower`

function value({ value, half }: SimulatedValue, text: (value: number) => string): string {
  return half === null ? text(value) : `${text(value)} ± ${percent(half / Math.max(value, Number.MIN_VALUE))}`
}

function energy(joules: number): string {
  const [scale, unit] = joules >= 1 ? [1, 'J'] : joules >= 1e-3 ? [1e-3, 'mJ'] : [1e-6, 'µJ']
  return `${(joules / scale).toFixed(2)} ${unit}`
}

/** A bar, with its interval as a whisker. */
function timeBar({ value, half }: SimulatedValue, longest: number): SVGElement {
  const width = 200
  const x = (ns: number): number => (width * ns) / longest
  const bar = svg('svg', { class: 'time-bar', width, height: 12, role: 'presentation' })
  bar.append(svg('rect', { class: 'amount', x: 0, y: 2, width: x(value).toFixed(1), height: 8 }))
  if (half !== null) {
    const [from, to] = [x(Math.max(0, value - half)), x(value + half)]
    bar.append(svg('path', { class: 'whisker', d: `M${from} 6H${to}M${from} 2V10M${to} 2V10` }))
  }
  return bar
}

/** Classes of the parts of bars, by what served. */
function kindOf(place: string): string {
  if (place.startsWith('L')) return `level level${place.slice(1)}`
  if (place === 'other caches') return 'transfers'
  return place === 'remote memory' ? 'remote' : 'local'
}

function served({ plans }: SimulatedMachine): HTMLElement {
  const section = card('Where accesses were served', 'simulated-served')
  const parts = bars(plans)
  const inner = plans[0]?.served[0]?.place ?? ''
  const keys = (parts[0] ?? []).map(({ place }) =>
    el('span', { class: 'key' }, el('i', { class: `swatch ${kindOf(place)}` }), ` ${place} `),
  )
  section.append(el('p', { class: 'note' }, `Beyond ${inner}: `, ...keys))
  const rows = plans.map((plan, k) => {
    const bar = svg('svg', { class: 'shares', viewBox: '0 0 1000 18', preserveAspectRatio: 'none', role: 'img' })
    for (const { place, share, start, width } of parts[k]!) {
      const size = { x: (1000 * start).toFixed(2), y: 0, width: (1000 * width).toFixed(2), height: 18 }
      bar.append(svg('rect', { class: kindOf(place), ...size }, svg('title', {}, `${place}: ${share100(share)}`)))
    }
    const shares = plan.served.map(({ place, share }) => `${place} ${share100(share)}`).join(', ')
    bar.setAttribute('aria-label', shares)
    const label = el('span', { class: 'name' }, planName(plan, plans))
    return el('div', { class: 'shares-row' }, label, bar, el('span', { class: 'note' }, shares))
  })
  section.append(...rows)
  return section
}

/** A share with a decimal where it is small. */
function share100(share: number): string {
  return share > 0 && share < 0.0995 ? `${(100 * share).toFixed(share < 0.00095 ? 3 : 1)} %` : percent(share)
}

function loads(of: SimulatedMachine): HTMLElement {
  const section = card('Load of controllers and links', 'simulated-loads')
  const largest = largestLoad(of.plans)
  const text = 'How much of the time each node’s controller (circle) and each link is busy; thicker is busier.'
  section.append(el('p', { class: 'note' }, text))
  const drawings = of.plans.map((plan) =>
    el('figure', {}, drawing(of, plan, largest), el('figcaption', {}, planName(plan, of.plans))),
  )
  section.append(el('div', { class: 'networks' }, ...drawings))
  return section
}

function drawing(of: SimulatedMachine, plan: SimulatedPlan, largest: number): SVGElement {
  const { nodes, links } = network(of, plan)
  const [size, radius] = [260, 95]
  const at = (index: number): [number, number] => [
    size / 2 + radius * nodes[index]!.x,
    size / 2 + radius * nodes[index]!.y,
  ]
  const picture = svg('svg', { class: 'network', width: size, height: size, role: 'img', 'aria-label': 'network' })
  for (const { from, to, busy } of links) {
    const [[x1, y1], [x2, y2]] = [at(from), at(to)]
    const most = Math.max(...busy)
    const title = `${nodes[from]!.label} to ${nodes[to]!.label}: ${share100(busy[0])}, back: ${share100(busy[1])}`
    const line = { x1, y1, x2, y2, 'stroke-width': (1 + (9 * most) / largest).toFixed(1) }
    picture.append(svg('line', line, svg('title', {}, title)))
  }
  nodes.forEach(({ label, busy }, index) => {
    const [cx, cy] = at(index)
    const fill = `color-mix(in srgb, var(--alarm) ${Math.round((100 * busy) / largest)}%, var(--node))`
    const title = svg('title', {}, `controller of ${label}: ${share100(busy)}`)
    picture.append(
      svg('circle', { cx, cy, r: 24, style: `fill: ${fill}` }, title),
      svg('text', { x: cx, y: cy - 2 }, label),
      svg('text', { x: cx, y: cy + 12 }, share100(busy)),
    )
  })
  return picture
}

/** Rows of a table that are shown at first. */
const ROWS = 15

function stalls(title: string, kind: string, plans: SimulatedPlan[], rows: SimulatedStall[]): HTMLElement {
  const section = card(title, `simulated-${kind}`)
  const text = 'Time in which threads executed nothing because they waited for caches and memory.'
  section.append(el('p', { class: 'note' }, text))
  const row = ({ name, ns }: SimulatedStall): HTMLElement => {
    const best = Math.min(...ns)
    const cells = ns.map((of) =>
      el('td', { class: of === best && ns.length > 1 ? 'number best' : 'number' }, nanoseconds(of)),
    )
    return el('tr', {}, el('td', { class: 'name' }, name), ...cells)
  }
  section.append(table([kind, ...plans.map((plan) => planName(plan, plans))], rows.slice(0, ROWS).map(row)))
  const more = rows.slice(ROWS)
  if (more.length > 0) {
    const names = `and ${grouped(more.length)} more`
    section.append(el('details', {}, el('summary', {}, names), table([kind, ...plans.map(() => '')], more.map(row))))
  }
  return section
}
