// From events to colours: linear or logarithmic, ramps that colour-blind people can order, one for
// light and one for dark pages.
import { interpolateViridis, interpolateYlGnBu } from 'd3-scale-chromatic'

export type ScaleKind = 'linear' | 'log'
export type Theme = 'light' | 'dark'

/** Position of a value on the ramp, 0 to 1. Values must be above 0. */
export function position(value: number, min: number, max: number, kind: ScaleKind): number {
  if (kind === 'linear') return max > 0 ? value / max : 0
  // A matrix with a single value has no range: show it as the greatest.
  return max > min ? Math.log(value / min) / Math.log(max / min) : 1
}

/** The colour at a position, `rgb(r, g, b)`. The least value still differs from "no talk". */
export function colour(position: number, theme: Theme): string {
  const clamped = Math.min(1, Math.max(0, position))
  const css =
    theme === 'light'
      ? interpolateYlGnBu(0.12 + 0.88 * clamped)
      : interpolateViridis(0.1 + 0.9 * clamped)
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
  if (kind === 'linear') {
    return [0, max / 2, max].map((value) => ({ value, position: value / max }))
  }
  const inner: Tick[] = []
  for (let exponent = Math.ceil(Math.log10(min)); 10 ** exponent < max; exponent++) {
    const value = 10 ** exponent
    const at = position(value, min, max, kind)
    // Not on top of the ends' labels.
    if (at > 0.12 && at < 0.88) inner.push({ value, position: at })
  }
  const step = Math.ceil(inner.length / 4)
  const kept = inner.filter((_, i) => i % Math.max(1, step) === 0)
  const ends = min < max ? [{ value: min, position: 0 }] : []
  return [...ends, ...kept, { value: max, position: 1 }]
}

/** Every how many cells of this width there is room for a label of so many characters. */
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
