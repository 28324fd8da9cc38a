// How the threads communicate: the pattern and what it suits in sentences, and how the structure changes
// over time.
import { axisWords, type Data } from '../model/data'
import type { SliceMetrics } from '../model/page-data'
import { polyline, steps } from '../model/series'
import { card, el, svg } from './dom'

const WIDTH = 560
const HEIGHT = 40

export function communication(data: Data): HTMLElement | null {
  const { communication_text: sentences } = data.findings
  if (sentences.length === 0) return null
  const section = card('How the threads communicate', 'communication')
  const [pattern, ...rest] = sentences
  section.append(
    el('p', { class: 'pattern' }, el('strong', {}, pattern!)),
    ...rest.map((text) => el('p', { class: 'note' }, text)),
  )
  section.append(...charts(data))
  return section
}

const CHARTS: { label: string; value: (slice: SliceMetrics) => number; unit: string }[] = [
  { label: 'heterogeneity C_H', value: (slice) => slice.heterogeneity, unit: '' },
  { label: 'balance C_B', value: (slice) => slice.balance, unit: ' %' },
]

/** Structure over time, with lines where phases start; nothing for a run of one slice. */
function charts(data: Data): HTMLElement[] {
  const { findings, time } = data
  const { slices, phases } = findings.communication
  if (slices.length < 2 || slices.length !== time.bounds.length - 1) return []
  const { bounds } = time
  const [first, last] = [bounds[0]!, bounds[bounds.length - 1]!]
  if (last <= first) return []
  const starts = phases.slice(1).map(({ start }) => start * WIDTH)
  return CHARTS.map(({ label, value, unit }) => {
    const values = slices.map(value)
    const most = values.reduce((a, b) => Math.max(a, b), 0)
    const text = `${label} over ${axisWords(data)}, at most ${most.toFixed(0)}${unit}`
    const drawing = svg(
      'svg',
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': text, preserveAspectRatio: 'none' },
      ...starts.map((x) => svg('line', { class: 'phase', x1: x, x2: x, y1: 0, y2: HEIGHT })),
      svg('polyline', { points: polyline(steps(values, bounds, WIDTH, HEIGHT)) }),
    )
    return el('figure', { class: 'series' }, el('figcaption', {}, text), drawing)
  })
}
