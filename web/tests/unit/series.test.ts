import { expect, test } from 'vitest'
import { polyline, steps } from '../../src/model/series'

test('values are steps between the bounds of their bins', () => {
  const points = steps([1, 4, 2], [0, 1, 3, 4], 80, 40)
  expect(points).toEqual([
    { x: 0, y: 30 },
    { x: 20, y: 30 },
    { x: 20, y: 0 },
    { x: 60, y: 0 },
    { x: 60, y: 20 },
    { x: 80, y: 20 },
  ])
  expect(polyline(points.slice(0, 2))).toBe('0.0,30.0 20.0,30.0')
})

test('bins without length, without values and without time', () => {
  expect(steps([5, 6], [0, 0, 1], 10, 10)).toEqual([
    { x: 0, y: 0 },
    { x: 10, y: 0 },
  ])
  expect(steps([0, 0], [0, 1, 2], 10, 10).every(({ y }) => y === 10)).toBe(true)
  expect(steps([], [], 10, 10)).toEqual([])
  expect(steps([1], [2, 2], 10, 10)).toEqual([])
})
