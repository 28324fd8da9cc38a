// From events to colours: linear or logarithmic, ramps that colour-blind people can order, one for
// light and one for dark pages.
import { type ScaleContinuousNumeric, scaleLinear, scaleLog } from 'd3-scale'
import { interpolateViridis, interpolateYlGnBu } from 'd3-scale-chromatic'

export type ScaleKind = 'linear' | 'log'
export type Theme = 'light' | 'dark'

/** From events to positions on the ramp, 0 to 1. `min` is the least value above 0. */
export function rampScale(min: number, max: number, kind: ScaleKind): ScaleContinuousNumeric<number, number> {
  if (kind === 'linear') return scaleLinear().domain([0, max])
  // A matrix with a single value has no range: show it as the greatest.
  return scaleLog().domain([min < max ? min : max / 10, max])
}

/** The colour at a position, `rgb(r, g, b)`. The least value still differs from "no communication". */
export function colour(position: number, theme: Theme): string {
  const clamped = Math.min(1, Math.max(0, position))
  const css = theme === 'light' ? interpolateYlGnBu(0.12 + 0.88 * clamped) : interpolateViridis(0.1 + 0.9 * clamped)
  const [r, g, b] = components(css)
  return `rgb(${r}, ${g}, ${b})`
}

/** Red, green, blue of `rgb(…)` or `#rrggbb`. */
export function components(css: string): [number, number, number] {
  const hex = /^#(..)(..)(..)$/.exec(css)
  if (hex) return [1, 2, 3].map((i) => parseInt(hex[i]!, 16)) as [number, number, number]
  return (css.match(/\d+/g) ?? []).slice(0, 3).map(Number) as [number, number, number]
}

/** Black or white, whichever is easier to read on a colour (WCAG relative luminance). */
export function textOn(css: string): string {
  const [r, g, b] = components(css).map((c) => {
    const s = c / 255
    return s <= 0.03928 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4
  }) as [number, number, number]
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? '#000000' : '#ffffff'
}

export interface Tick {
  value: number
  /** 0 to 1 along the ramp. */
  position: number
}

/** Ticks of the legend: the ends, and round values between them. */
export function ticks(min: number, max: number, kind: ScaleKind): Tick[] {
  if (max <= 0) return []
  const scale = rampScale(min, max, kind)
  const [least, most] = kind === 'linear' ? [0, 2] : [min, 4]
  // A logarithmic scale has more round values than labels.
  const text = scale.tickFormat(most)
  const inner = scale
    .ticks(most)
    .filter((value) => value > least && text(value) !== '')
    .map((value) => ({ value, position: scale(value) }))
    // Not on top of the ends' labels.
    .filter(({ position }) => position > 0.12 && position < 0.88)
  const ends = least < max ? [{ value: least, position: 0 }] : []
  return [...ends, ...inner, { value: max, position: 1 }]
}

/** Round places of an axis of seconds or percent from `first` to `last`, about `most` of them. */
export function timeTicks(first: number, last: number, most: number, of: 's' | '%'): { at: number; text: string }[] {
  const [length, unit] = of === '%' ? [1, '%'] : last >= 1 ? [1, 's'] : last >= 1e-3 ? [1e-3, 'ms'] : [1e-6, 'µs']
  const scale = scaleLinear().domain([first / length, last / length])
  const text = scale.tickFormat(most)
  return scale.ticks(most).map((value) => ({ at: value * length, text: `${text(value)} ${unit}` }))
}

/** Every how many cells of this width there is room for a label of this many characters. */
export function labelStep(cell: number, characters: number): number {
  let step = 1
  while (step * cell < 8 + 7 * characters) step *= 2
  return step
}

/** Colours of the machine's levels, nearest first: the last is always the alarming one (Okabe and
 *  Ito's palette). */
export function levelColours(levels: number): string[] {
  const palette = ['#009e73', '#56b4e9', '#0072b2', '#cc79a7', '#e69f00', '#d55e00']
  if (levels <= 1) return palette.slice(0, Math.max(0, levels))
  const near = palette.slice(0, palette.length - 1)
  const out: string[] = []
  for (let i = 0; i < levels - 1; i++) {
    out.push(near[levels - 1 <= near.length ? i : Math.floor((i * near.length) / (levels - 1))]!)
  }
  return [...out, palette[palette.length - 1]!]
}
