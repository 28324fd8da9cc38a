// The same cases as crates/types/src/numbers.rs.
import { expect, test } from 'vitest'
import { duration, grouped, nanoseconds, percent, relativeCost, short } from '../../src/model/numbers'

test.each([
  [0, '0'],
  [7, '7'],
  [0.4, '0.4'],
  [0.0426, '0.043'],
  [0.001, '1.0e-3'],
  [999, '999'],
  [999.6, '1.0 k'],
  [1234, '1.2 k'],
  [9_960, '10 k'],
  [45_678, '46 k'],
  [999_499, '999 k'],
  [2_310_000, '2.3 M'],
  [1.8e19, '18 E'],
])('short %d', (count, text) => expect(short(count)).toBe(text))

test('thousands are apart', () => {
  expect(grouped(0)).toBe('0')
  expect(grouped(999)).toBe('999')
  expect(grouped(1000)).toBe('1,000')
  expect(grouped(2n ** 64n - 1n)).toBe('18,446,744,073,709,551,615')
})

test('shares never round to all or nothing', () => {
  expect([0, 0.004, 0.61, 0.999, 1].map(percent)).toEqual(['0 %', '<1 %', '61 %', '>99 %', '100 %'])
})

test('costs may exceed the reference, and round to all', () => {
  expect([0, 0.004, 0.999, 1.17].map(relativeCost)).toEqual(['0 %', '<1 %', '100 %', '117 %'])
})

test('durations have units', () => {
  expect([4e-6, 0.0123, 1.254, 200].map(duration)).toEqual(['4 µs', '12 ms', '1.25 s', '3 min 20 s'])
})

test.each([
  [0, '0 ns'],
  [51.3, '51.3 ns'],
  [999.6, '1.00 µs'],
  [1_238_000, '1.24 ms'],
  [98.6e6, '98.6 ms'],
  [4e12, '4000 s'],
])('%d nanoseconds', (ns, text) => {
  expect(nanoseconds(ns)).toBe(text)
})
