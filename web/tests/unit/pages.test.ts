import { expect, test } from 'vitest'
import { bands, binaryBytes, columnOf, decodePages, threadsOf } from '../../src/model/pages'

/** Numbers below 128, as Varints reads them. */
const coded = (...numbers: number[]): string => btoa(String.fromCharCode(...numbers))

const MAP = {
  pages: 5,
  objects: [
    {
      pages: 3,
      pages_per_row: 1,
      rows: coded(64, 1, 0, 1, 1, 1, 1, 1, 2, 1, 1, 0),
      cells: coded(0, 0, 3, 4, 1, 1, 5, 0, 1, 3, 7, 1),
    },
    { pages: 2, pages_per_row: 2, rows: coded(100, 2, 0, 3), cells: coded(0, 2, 9, 0) },
  ],
}

test('rows and cells are decoded', () => {
  const [first, second] = decodePages(MAP)
  expect(first!.first).toEqual([64, 65, 67])
  expect(first!.home).toEqual([0, 1, 1])
  expect(first!.touched).toEqual([0, 0, -1])
  expect(first!.cells[2]).toEqual({ row: 2, thread: 3, reads: 7, writes: 1 })
  expect([second!.size, second!.touched]).toEqual([[2], [2]])
  expect(decodePages(null)).toEqual([])
})

test('an overview has lines of each object, a closer look those of one', () => {
  const objects = decodePages(MAP)
  const all = (): boolean => true
  const overview = bands(objects, { object: null, from: 0, end: 0 }, 4, 4, 4, all)
  expect(overview.map(({ object, from, end, pages }) => [object, from, end, pages])).toEqual([
    [0, 0, 2, 2],
    [0, 2, 3, 1],
    [1, 0, 1, 2],
  ])
  expect([...overview[0]!.reads]).toEqual([3, 5, 0, 0])
  const close = bands(objects, { object: 0, from: 1, end: 3 }, 10, 2, 4, (thread) => thread === 3)
  expect(close.map(({ reads, writes }) => [[...reads], [...writes]])).toEqual([
    [
      [0, 0],
      [0, 0],
    ],
    [
      [0, 7],
      [0, 1],
    ],
  ])
})

test('threads share columns', () => {
  for (const [threads, columns] of [
    [10, 4],
    [1024, 300],
    [3, 3],
  ] as const) {
    for (let thread = 0; thread < threads; thread++) {
      const [from, end] = threadsOf(columnOf(thread, columns, threads), columns, threads)
      expect(from <= thread && thread < end).toBe(true)
    }
  }
})

test('bytes in words', () => {
  expect([4096, 1536 * 1024, 3].map(binaryBytes)).toEqual(['4 KiB', '1.5 MiB', '3 bytes'])
})
