import { expect, test } from 'vitest'
import { byCluster } from '../../src/model/cluster'
import { SparseMatrix } from '../../src/model/matrix'

type Cell = [from: number, to: number, count: number]

function matrix(threads: number, cells: Cell[]): SparseMatrix {
  const sorted = [...cells].sort((a, b) => a[0] - b[0] || a[1] - b[1])
  const column = (i: 0 | 1): Uint32Array => Uint32Array.from(sorted.map((cell) => cell[i]))
  return new SparseMatrix(threads, column(0), column(1), BigUint64Array.from(sorted.map((c) => BigInt(c[2]))))
}

test('groups come together, those that communicate most at the seam', () => {
  // Two groups of three, dealt out in turn; 2 and 5 communicate a little across.
  const cells: Cell[] = [
    [0, 2, 100],
    [2, 4, 100],
    [4, 0, 90],
    [1, 3, 100],
    [3, 5, 100],
    [5, 1, 90],
    [2, 5, 10],
  ]
  const order = byCluster(matrix(6, cells))
  expect([...order].sort()).toEqual([0, 1, 2, 3, 4, 5])
  const groups = [order.slice(0, 3), order.slice(3)].map((group) => group.map((t) => t % 2))
  expect(groups.map((group) => new Set(group).size)).toEqual([1, 1])
})

test('a shuffled chain is unrolled', () => {
  const thread = (place: number): number => (place * 5 + 3) % 16
  const cells = Array.from({ length: 15 }, (_, i): Cell => [thread(i), thread(i + 1), 1000 - i])
  const order = byCluster(matrix(16, cells))
  const neighbours = order
    .slice(1)
    .filter((t, i) => cells.some(([a, b]) => (a === t && b === order[i]) || (b === t && a === order[i])))
  // Turning whole groups cannot always make every seam; nearly all of them.
  expect(neighbours.length).toBeGreaterThanOrEqual(12)
})

test('alike threads stay as they are', () => {
  expect(byCluster(matrix(5, []))).toEqual([0, 1, 2, 3, 4])
  expect(byCluster(matrix(1, []))).toEqual([0])
  expect(byCluster(matrix(0, []))).toEqual([])
})

test('a thousand threads that all communicate', () => {
  const cells: Cell[] = []
  for (let a = 0; a < 1024; a++) {
    for (let b = 0; b < 1024; b++) if (a !== b) cells.push([a, b, a % 32 === b % 32 ? 50 : 1])
  }
  const order = byCluster(matrix(1024, cells))
  const changes = order.slice(1).filter((t, i) => t % 32 !== order[i]! % 32)
  expect(changes.length).toBe(31)
})
