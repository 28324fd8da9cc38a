// Puts the page together from the data in it.
import './style.css'
import './placement.css'
import './objects.css'
import './memory.css'
import './simulation.css'
import { type Data, parseData } from './model/data'
import type { Theme } from './model/scale'
import { parseSimulation } from './model/simulation'
import { Store } from './state'
import { causes, latent } from './view/causes'
import { changes } from './view/changes'
import { communication } from './view/communication'
import { choice, el } from './view/dom'
import { filters } from './view/filters'
import { graph } from './view/graph'
import { heatmap } from './view/heatmap'
import { lines } from './view/lines'
import { MAX_BESIDE, machine } from './view/machine'
import { memory } from './view/memory'
import { objects } from './view/objects'
import { simulation } from './view/simulation'
import { threads } from './view/threads'
import { timeline } from './view/timeline'
import { measured, processes, verdict, warnings } from './view/words'

function preferredTheme(): Theme {
  return matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'
}

function themeChoice(theme: Theme, changed: (theme: Theme) => void): HTMLElement {
  const options = [
    { value: 'light' as const, text: 'light' },
    { value: 'dark' as const, text: 'dark' },
  ]
  return choice('Colours', options, theme, changed)
}

function applyTheme(theme: Theme): void {
  document.documentElement.dataset.theme = theme
}

/** PUs beyond which the drawing of the machine comes after what is about the code. */
const LARGE_MACHINE = 40

/** The cards: two columns, and between them what needs both. */
function arrange(data: Data, store: Store): HTMLElement[] {
  const { findings } = data
  const { placement } = findings
  const column = (...cards: (HTMLElement | null)[]): HTMLElement =>
    el('div', { class: 'column' }, ...cards.filter((c) => c !== null))
  const drawing = placement ? machine(data, placement, store) : null
  const across = [timeline(data, store), lines(data, store)]
  const first = [
    changes(findings.changes),
    causes(data, store),
    latent(data),
    memory(data, store),
    objects(data, store),
  ]
  const large = placement !== null && placement.pus.length > LARGE_MACHINE
  const cards = [
    ...first,
    column(heatmap(data, store)),
    column(graph(data, store), communication(data)),
    ...(large ? [...across, drawing] : [drawing, ...across]),
    column(threads(findings, store)),
    column(processes(findings), warnings(findings), measured(data)),
  ]
  return cards.filter((card) => card !== null)
}

function start(): void {
  const app = document.getElementById('app')!
  const text = document.getElementById('threadtalk-data')!.textContent ?? ''
  const simulated = parseSimulation(text)
  if (simulated) {
    applyTheme(preferredTheme())
    document.title = `${simulated.command.join(' ')} · simulated · Threadtalk`
    app.append(...simulation(simulated, themeChoice(preferredTheme(), applyTheme)))
    return
  }
  const data = parseData(text)
  const { findings } = data
  const layouts = findings.placement?.layouts.length ?? 1
  const store = new Store({
    kind: findings.talk.kind,
    sharing: 'all',
    range: null,
    pick: null,
    line: null,
    object: null,
    scale: 'linear',
    order: 'id',
    layout: layouts - 1,
    beside: (findings.placement?.pus.length ?? 0) <= MAX_BESIDE,
    theme: preferredTheme(),
    focus: null,
  })
  applyTheme(store.state.theme)
  store.on(['theme'], () => applyTheme(store.state.theme))
  document.title = `${findings.program.command.join(' ')} · Threadtalk`
  app.append(
    verdict(
      findings,
      themeChoice(store.state.theme, (theme) => store.set({ theme })),
    ),
    filters(data, store),
    el('main', {}, ...arrange(data, store)),
  )
}

try {
  start()
} catch (error) {
  const text = error instanceof Error ? error.message : String(error)
  document.getElementById('app')!.append(el('p', { class: 'failure' }, `This report cannot be shown: ${text}`))
  throw error
}
