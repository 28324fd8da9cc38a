import { expect, test } from 'vitest'
import { edgeLimit, fitInto, graphSize, layoutGraph, nodeRadius } from '../../src/model/graph'

const pairs = [
  { from: 0, to: 2, events: 1000 },
  { from: 1, to: 3, events: 1000 },
  { from: 0, to: 1, events: 1 },
]

test('threads that communicate are nearer than threads that do not, always the same way', () => {
  const points = layoutGraph(4, pairs, 560, 430, 30)
  const distance = (a: number, b: number): number =>
    Math.hypot(points[a]!.x - points[b]!.x, points[a]!.y - points[b]!.y)
  expect(distance(0, 2)).toBeLessThan(distance(0, 1) / 2)
  expect(distance(1, 3)).toBeLessThan(distance(2, 3) / 2)
  expect(layoutGraph(4, pairs, 560, 430, 30)).toEqual(points)
})

test.each([1, 2, 16, 256])('%d threads stay in the picture', (threads) => {
  const ring = Array.from({ length: threads }, (_, i) => ({
    from: i,
    to: (i + 1) % threads,
    events: 5,
  })).filter((edge) => edge.from !== edge.to)
  const [width, height] = graphSize(threads)
  for (const point of layoutGraph(threads, ring, width, height, 20)) {
    expect(point.x).toBeGreaterThanOrEqual(19.9)
    expect(point.x).toBeLessThanOrEqual(width - 19.9)
    expect(point.y).toBeGreaterThanOrEqual(19.9)
    expect(point.y).toBeLessThanOrEqual(height - 19.9)
  }
})

test('no thread, no point', () => expect(layoutGraph(0, [], 100, 100, 5)).toEqual([]))

test('fitting keeps proportions and bounds the magnification', () => {
  const fitted = fitInto(
    [
      { x: 0, y: 0 },
      { x: 1, y: 0 },
    ],
    100,
    100,
    10,
  )
  expect(fitted[1]!.x - fitted[0]!.x).toBe(3)
  const shrunk = fitInto(
    [
      { x: 0, y: 0 },
      { x: 800, y: 400 },
    ],
    100,
    100,
    10,
  )
  expect(shrunk[1]!.x - shrunk[0]!.x).toBe(80)
  expect(shrunk[1]!.y - shrunk[0]!.y).toBe(40)
})

test('many threads get small circles and a bounded number of edges', () => {
  expect([nodeRadius(4), nodeRadius(64), nodeRadius(1000)]).toEqual([17, 12, 9])
  expect([edgeLimit(4), edgeLimit(100), edgeLimit(5000)]).toEqual([60, 600, 2000])
})
