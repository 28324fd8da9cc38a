// The parts of the page that are words and numbers: verdict, figures, warnings, how it was measured.
import { type Data, unit } from '../model/data'
import { evidence } from '../model/evidence'
import { duration, grouped, percent, short } from '../model/numbers'
import type { Findings, Sampling, Talk } from '../model/page-data'
import { KINDS } from './causes'
import { card, el } from './dom'

export function verdict(findings: Findings, theme: HTMLElement): HTMLElement {
  const { verdict, program } = findings
  return el(
    'header',
    { class: 'verdict' },
    el(
      'div',
      { class: 'top' },
      el('p', { class: 'command' }, el('b', {}, 'Threadtalk'), ' · ', el('code', {}, program.command.join(' '))),
      theme,
    ),
    ...reliability(findings),
    el('h1', { id: 'verdict' }, verdict.headline),
    ...verdict.details.map((text) => detail(findings, text)),
    figures(findings),
  )
}

/** How amounts were obtained and how far they can be trusted, before any of them. */
function reliability({ reliability }: Findings): HTMLElement[] {
  if (reliability === null) return []
  return [el('div', { class: 'reliability', role: 'note' }, ...reliability.text.map((text) => el('p', {}, text)))]
}

/** A sentence of the verdict; causes are marked as such. */
function detail(findings: Findings, text: string): HTMLElement {
  const cause = findings.causes.find((cause) => cause.text === text)
  if (!cause) return el('p', { class: 'detail' }, text)
  const { badge, text: kind } = KINDS[cause.kind]
  return el('p', { class: 'detail advice' }, el('span', { class: badge }, kind), ' ', text)
}

/** A pair with less of the communication is not worth a large number. */
const NOTABLE_PAIR = 0.05

/** The few numbers worth a large font. */
function figures(findings: Findings): HTMLElement {
  const { talk, measured, placement, pairs, threads } = findings
  const list: [string, string][] = []
  // Of too few samples no number of communication is worth a large font.
  const enough = findings.reliability?.enough ?? true
  if (!enough) list.push([`${talk.estimate?.hits ?? 0}`, 'samples showed communication'])
  const rate = talk.events_per_second ?? talk.events_per_recorded_second
  if (enough && rate !== null) {
    // The recorded run is slower than the program alone, so it is named where only its seconds are known.
    const how =
      talk.events_per_second === null
        ? 'of the recorded run'
        : measured.sampled
          ? 'estimated from samples'
          : "of the program's own time, estimated"
    const what = talk.kind === 'undirected' ? `pairs of accesses to ${unit(measured.block_bytes)}` : talk.what
    list.push([`${short(rate)}/s`, `${what}, ${how}`])
  }
  if (enough && talk.false_share !== null) {
    const known = talk.raw_true + talk.raw_false + talk.waw_true + talk.waw_false
    const likely = known < talk.raw + talk.waw && !measured.sampled ? 'likely ' : ''
    list.push([percent(talk.false_share), `of reads and overwrites are ${likely}false sharing`])
  }
  list.push([`${threads.length}`, threads.length === 1 ? 'thread' : 'threads'])
  const top = pairs[0]
  if (enough && top && top.share >= NOTABLE_PAIR) {
    list.push([percent(top.share), `of the communication between T${top.a} and T${top.b}`])
  }
  const last = placement?.layouts[placement.layouts.length - 1]
  const [far, near] = [placement?.chance.shares, last?.shares].map((s) => s?.[s.length - 1])
  if (enough && last && far && near) {
    const text = `of the communication is ${near.level}, by chance → ${last.policy}`
    list.push([`${percent(far.share)} → ${percent(near.share)}`, text])
  }
  if (enough && talk.events_per_thousand_accesses !== null) {
    list.push([short(talk.events_per_thousand_accesses), 'of these per thousand accesses'])
  }
  return el(
    'dl',
    { class: 'figures' },
    ...list.map(([value, text]) => el('div', {}, el('dt', {}, value), el('dd', {}, text))),
  )
}

/** Processes listed; the rest is counted. */
const PROCESSES = 20

export function processes({ processes }: Findings): HTMLElement | null {
  if (processes.length === 0) return null
  const section = card(processes.some((p) => p.named) ? 'Other processes' : 'Child processes', 'processes')
  const sorted = [...processes].sort((a, b) => b.threads - a.threads || a.number - b.number)
  const head = el('tr', {}, el('th', { class: 'number' }, 'threads'), el('th', {}, 'command'), el('th', {}, 'profile'))
  const rows = sorted
    .slice(0, PROCESSES)
    .map(({ threads, command, profile, unrecorded_text }) =>
      el(
        'tr',
        {},
        el('td', { class: 'number' }, `${threads}`),
        el('td', { class: 'text', title: command.join(' ') }, command.join(' ')),
        el('td', {}, profile ?? `not recorded${unrecorded_text ? `: ${unrecorded_text}` : ''}`),
      ),
    )
  section.append(el('table', {}, el('thead', {}, head), el('tbody', {}, ...rows)))
  if (processes.length > PROCESSES) {
    section.append(el('p', { class: 'note' }, `and ${grouped(processes.length - PROCESSES)} more`))
  }
  return section
}

export function warnings(findings: Findings): HTMLElement | null {
  if (findings.warnings.length === 0) return null
  const section = card('What was not seen', 'warnings')
  section.append(el('ul', {}, ...findings.warnings.map(({ code, text }) => el('li', { 'data-code': code }, text))))
  return section
}

/** How many events of each kind. */
function events(talk: Talk): [string, string][] {
  if (talk.kind === 'undirected') return [["Pairs by numalize's definition", grouped(talk.undirected)]]
  const bySharing = (all: number, truly: number, falsely: number): string => {
    const unknown = all - truly - falsely
    if (truly + falsely === 0) return ''
    return `, ${grouped(falsely)} of them false sharing${unknown > 0 ? `, ${grouped(unknown)} unknown` : ''}`
  }
  return [
    ['Reads of what another thread wrote', grouped(talk.raw) + bySharing(talk.raw, talk.raw_true, talk.raw_false)],
    ['Writes over what another thread wrote', grouped(talk.waw) + bySharing(talk.waw, talk.waw_true, talk.waw_false)],
    ['Writes to what another thread has read', grouped(talk.invalidation)],
  ]
}

/** What was sampled and what amounts mean. */
function sampled(sampling: Sampling, talk: Talk): [string, string][] {
  const { estimate } = talk
  const { basis, samples, decoded, hits } = sampling
  const often = sampling.period
    ? `once in ${grouped(sampling.period)} events`
    : `about ${short(sampling.rate)} times per second of CPU time`
  const amounts =
    basis.by === 'counters'
      ? `as many as '${basis.event}' counted`
      : basis.by === 'latency'
        ? `time waiting, divided by the ${Math.round(basis.transfer_ns)} ns that a line takes (${basis.source}); not a count`
        : 'each hit stands for the accesses between two samples; not a count'
  const rows: [string, string][] = [
    ['Sampled', `${sampling.source}, ${often}: ${sampling.reason}`],
    ['Samples', `${grouped(samples)}, of ${grouped(decoded)} the access is known, ${grouped(hits)} hits`],
    ['Amounts', amounts],
    ['Evidence', evidence(talk.evidence)],
  ]
  if (estimate) {
    const text = `${short(estimate.low)} to ${short(estimate.high)} ${talk.what}, as far as chance goes`
    rows.push(['95 % interval', text])
  }
  const { lost, throttled } = sampling
  if (lost + throttled > 0) {
    rows.push(['Not seen', `${grouped(lost)} records lost, slowed down ${grouped(throttled)} times`])
  }
  return rows
}

/** What the run would have taken alone, and how much its threads ran at the same time. */
function alone({ measured, at_once }: Findings): [string, string][] {
  const rows: [string, string][] = []
  const own = measured.own_time
  if (own && !measured.sampled) {
    const text = `about ${duration(own.seconds)} (${duration(own.low)} to ${duration(own.high)}), as far as the time between windows tells`
    rows.push(['Alone', text])
  }
  const slowed = measured.slowed
  if (slowed) {
    const text = `${percent(slowed.share)} of the processor time (${percent(slowed.low)} to ${percent(slowed.high)}), by moments in which one thread ran alone`
    rows.push(['Slowed by running at once', text])
  }
  if (at_once && at_once.ran !== null) {
    const text = `two of the threads that communicate could for ${percent(at_once.wanted)} of their time, and did for ${percent(at_once.ran)} of that`
    rows.push(['Ran at once', text])
  }
  return rows
}

export function measured(data: Data): HTMLElement {
  const { measured, program, talk } = data.findings
  const ended =
    program.exit_signal !== null
      ? `signal ${program.exit_signal}`
      : program.exit_code !== null
        ? `exit code ${program.exit_code}`
        : 'unknown'
  const rows: [string, string][] = [
    ['Mode', measured.mode === 'exact' ? 'exact: every load and store was seen' : measured.mode],
    ['Counted in', `blocks of ${measured.block_bytes} bytes`],
    ...(measured.sampled
      ? sampled(measured.sampled, talk)
      : [['Loads, stores', `${grouped(measured.loads)}, ${grouped(measured.stores)}`] as [string, string]]),
    ...events(talk),
    [
      'Recorded run',
      `${duration(measured.wall_seconds)}, ${duration(measured.cpu_seconds)} of CPU time${measured.sampled ? '' : '; longer than the program alone'}`,
    ],
    ...alone(data.findings),
    ['Program ended with', ended],
    ['Run in', program.directory],
    ['On', `${program.host}, ${program.started}`],
    ['By', `${measured.tool}, schema ${measured.schema_version}`],
  ]
  const section = card('How it was measured', 'measured')
  section.append(el('dl', {}, ...rows.flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, value)])))
  return section
}
