// The heat map's scale: the ramp with values and the unit.
import type { BinnedMatrix } from '../model/matrix'
import { short } from '../model/numbers'
import { colour, ticks } from '../model/scale'
import type { State } from '../state'
import { el } from './dom'

export function legend(matrix: BinnedMatrix, state: State, width: number, unit: string): HTMLElement {
  if (matrix.max === 0) return el('p', { class: 'note' }, 'No such events.')
  const stops = Array.from({ length: 17 }, (_, i) => colour(i / 16, state.theme))
  const ramp = el('div', { class: 'ramp' })
  ramp.style.background = `linear-gradient(to right, ${stops.join(', ')})`
  const labels = el('div', { class: 'ticks' })
  for (const tick of ticks(matrix.min, matrix.max, state.scale)) {
    const label = el('span', {}, short(tick.value))
    label.style.left = `${tick.position * 100}%`
    labels.append(label)
  }
  const zero = el('span', { class: 'key' }, el('i', { class: 'swatch zero' }), 'none')
  const text = matrix.bin > 1 ? `${unit}; a cell sums ${matrix.bin} × ${matrix.bin} threads` : unit
  const bar = el('div', { class: 'bar' }, ramp, labels)
  bar.style.width = `${Math.max(240, width)}px`
  return el(
    'div',
    { class: 'scale', id: 'scale' },
    bar,
    el('p', { class: 'note' }, zero, ` ${text}, ${state.scale} scale`),
  )
}
