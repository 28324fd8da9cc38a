import { expect, test } from 'vitest'
import { colour, components, labelStep, levelColours, rampScale, textOn, ticks, timeTicks } from '../../src/model/scale'

test('linear and log positions', () => {
  expect(rampScale(1, 100, 'linear')(50)).toBe(0.5)
  expect(rampScale(1, 100, 'log')(10)).toBeCloseTo(0.5, 12)
  expect(rampScale(1, 100, 'log')(1)).toBe(0)
  expect(rampScale(1, 100, 'log')(100)).toBe(1)
  expect(rampScale(7, 7, 'log')(7)).toBe(1)
})

function luminance(css: string): number {
  const [r, g, b] = components(css)
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}

test('ramps go one way in brightness, so that they can be ordered without hue', () => {
  for (const [theme, sign] of [
    ['light', -1],
    ['dark', 1],
  ] as const) {
    const steps = Array.from({ length: 21 }, (_, i) => luminance(colour(i / 20, theme)))
    for (let i = 1; i < steps.length; i++) {
      expect(sign * (steps[i]! - steps[i - 1]!)).toBeGreaterThan(0)
    }
  }
})

test('text on a colour is readable', () => {
  expect(textOn('rgb(255, 255, 255)')).toBe('#000000')
  expect(textOn('#fde725')).toBe('#000000')
  expect(textOn('rgb(8, 29, 88)')).toBe('#ffffff')
})

test('ticks are round and do not sit on the ends', () => {
  expect(ticks(7, 1000, 'linear')).toEqual([
    { value: 0, position: 0 },
    { value: 500, position: 0.5 },
    { value: 1000, position: 1 },
  ])
  expect(ticks(7, 937, 'linear').map((t) => t.value)).toEqual([0, 500, 937])
  expect(ticks(20, 60, 'log').map((t) => t.value)).toEqual([20, 30, 40, 50, 60])
  expect(ticks(2, 200_000, 'log').map((t) => t.value)).toEqual([2, 10, 100, 1000, 10_000, 200_000])
  expect(ticks(5, 5, 'log').map((t) => t.value)).toEqual([5])
  expect(ticks(0, 0, 'log')).toEqual([])
})

test('times of an axis are round and have one unit', () => {
  expect(timeTicks(0, 0.437, 5, 's').map((t) => t.text)).toEqual(['0 ms', '100 ms', '200 ms', '300 ms', '400 ms'])
  expect(timeTicks(0, 2.1, 4, 's')).toEqual([
    { at: 0, text: '0.0 s' },
    { at: 0.5, text: '0.5 s' },
    { at: 1, text: '1.0 s' },
    { at: 1.5, text: '1.5 s' },
    { at: 2, text: '2.0 s' },
  ])
  expect(timeTicks(0, 100, 4, '%').map((t) => t.text)).toEqual(['0 %', '20 %', '40 %', '60 %', '80 %', '100 %'])
})

test('the farthest level has the alarming colour', () => {
  expect(levelColours(1)).toHaveLength(1)
  expect(levelColours(3)).toEqual(['#009e73', '#56b4e9', '#d55e00'])
  const many = levelColours(8)
  expect([many.length, many[7]]).toEqual([8, '#d55e00'])
})

test('labels get room', () => {
  expect(labelStep(100, 2)).toBe(1)
  expect(labelStep(2.4, 4)).toBe(16)
})
