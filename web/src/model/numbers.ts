// Numbers for people; the same results as crates/types/src/numbers.rs.
import { formatLocale } from 'd3-format'

const { format, formatPrefix } = formatLocale({
  decimal: '.',
  thousands: ',',
  grouping: [3],
  currency: ['', ''],
  percent: ' %',
})

/** A count in at most four characters and a prefix: 999, 1.2 k, 34 k, 5.6 M. */
export function short(count: number): string {
  if (count < 999.5) return small(count)
  // The prefix is that of what is printed: 999,600 is 1.0 M.
  const printed = Number(count.toPrecision(3))
  const tenths = formatPrefix('.1', printed)(count)
  const text = tenths.length > 4 ? formatPrefix('.0', printed)(count) : tenths
  return `${text.slice(0, -1)} ${text.slice(-1)}`
}

/** A number without a prefix. */
function small(count: number): string {
  if (Number.isInteger(count)) return `${count}`
  const specifier = count >= 9.95 ? '.0f' : count >= 0.095 ? '.1f' : count >= 0.0095 ? '.3f' : '.1e'
  return format(specifier)(count)
}

/** A whole number with its thousands apart: 1,234,567. */
export function grouped(count: bigint | number): string {
  // d3-format knows no bigint.
  return count.toLocaleString('en-US')
}

const wholePercent = format('.0%')

/** A share in whole percent; never 0 % of something, never 100 % of less than all. */
export function percent(share: number): string {
  if (share <= 0) return '0 %'
  if (share < 0.01) return '<1 %'
  if (share < 1 && share > 0.99) return '>99 %'
  return wholePercent(share)
}

/** A cost relative to another, in whole percent; never 0 % of something. */
export function relativeCost(ratio: number): string {
  return ratio > 0 && ratio < 0.01 ? '<1 %' : wholePercent(ratio)
}

/** Nanoseconds with a fitting unit, three digits: 1.24 ms. */
export function nanoseconds(ns: number): string {
  const units: [number, string][] = [
    [1e9, 's'],
    [1e6, 'ms'],
    [1e3, 'µs'],
  ]
  const [scale, unit] = units.find(([scale]) => ns / scale >= 0.9995) ?? [1, 'ns']
  const value = ns / scale
  return `${value.toFixed(value >= 99.95 || value === 0 ? 0 : value >= 9.995 ? 1 : 2)} ${unit}`
}

/** Seconds with a fitting unit: 12 ms, 1.25 s, 3 min 20 s. */
export function duration(seconds: number): string {
  if (seconds >= 60) {
    const whole = Math.round(seconds)
    return `${Math.floor(whole / 60)} min ${whole % 60} s`
  }
  if (seconds >= 1) return `${seconds.toFixed(2)} s`
  if (seconds >= 0.001) return `${Math.round(seconds * 1e3)} ms`
  return `${Math.round(seconds * 1e6)} µs`
}
