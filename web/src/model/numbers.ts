// Numbers for people; the same results as crates/report/src/numbers.rs.

/** A count in at most four characters and a prefix: 999, 1.2 k, 34 k, 5.6 M. */
export function short(count: number): string {
  const units = ['', ' k', ' M', ' G', ' T', ' P', ' E']
  let value = count
  let unit = 0
  while (value >= 999.5 && unit + 1 < units.length) {
    value /= 1000
    unit++
  }
  if (unit === 0 && Number.isInteger(value)) return `${value}`
  if (value < 0.0095 && value !== 0) return value.toExponential(1)
  if (value < 0.095) return value.toFixed(3)
  return `${value.toFixed(value >= 9.95 ? 0 : 1)}${units[unit]}`
}

/** A whole number with its thousands apart: 1,234,567. */
export function grouped(count: bigint | number): string {
  return count.toString().replace(/\B(?=(\d{3})+$)/g, ',')
}

/** A share in whole percent; never 0 % of something, never 100 % of less than all. */
export function percent(share: number): string {
  if (share <= 0) return '0 %'
  if (share < 0.01) return '<1 %'
  if (share < 1 && share > 0.99) return '>99 %'
  return `${Math.round(share * 100)} %`
}

/** A cost relative to another, in whole percent; never 0 % of something. */
export function relativeCost(ratio: number): string {
  return ratio > 0 && ratio < 0.01 ? '<1 %' : `${Math.round(ratio * 100)} %`
}

/** Nanoseconds with a fitting unit, three digits: 1.24 ms. */
export function nanoseconds(ns: number): string {
  const units: [number, string][] = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs']]
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
