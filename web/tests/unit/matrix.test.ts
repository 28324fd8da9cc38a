import { expect, test } from 'vitest'
import {
  binned,
  byId,
  byPlace,
  exactAt,
  SparseMatrix,
  strongest,
  strongestPairs,
  threadsAt,
} from '../../src/model/matrix'

/** 0→1: 5, 0→3: 2^60+1, 2→0: 7, 3→0: 1. */
const matrix = new SparseMatrix(
  5,
  new Uint32Array([0, 0, 2, 3]),
  new Uint32Array([1, 3, 0, 0]),
  new BigUint64Array([5n, 2n ** 60n + 1n, 7n, 1n]),
)

test('cells are found exactly, beyond 2^53 too', () => {
  expect(matrix.get(0, 1)).toBe(5n)
  expect(matrix.get(0, 3)).toBe(1152921504606846977n)
  expect(matrix.get(3, 0)).toBe(1n)
  expect(matrix.get(1, 0)).toBe(0n)
  expect(matrix.get(4, 4)).toBe(0n)
  expect(matrix.total).toBe(1152921504606846990n)
})

test('an empty matrix has no range', () => {
  const none = new SparseMatrix(3, new Uint32Array(), new Uint32Array(), new BigUint64Array())
  const view = binned(none, byId(3), 100)
  expect([view.cells, view.bin, view.min, view.max]).toEqual([3, 1, 0, 0])
  expect(none.get(2, 1)).toBe(0n)
})

test('one thread per cell: rows are readers, columns writers', () => {
  const view = binned(matrix, byId(5), 100)
  expect([view.cells, view.bin]).toEqual([5, 1])
  expect(view.values[1 * 5 + 0]).toBe(5)
  expect(view.values[0 * 5 + 2]).toBe(7)
  expect(view.min).toBe(1)
  expect(view.max).toBe(2 ** 60)
})

test('bins sum neighbours in the given order', () => {
  const view = binned(matrix, [0, 2, 1, 3, 4], 3)
  expect([view.cells, view.bin]).toEqual([3, 2])
  expect(threadsAt(view, 0)).toEqual([0, 2])
  expect(threadsAt(view, 2)).toEqual([4])
  // 2→0 is inside the first bin; 0→1 and 0→3 go to the second.
  expect(view.values[0]).toBe(7)
  expect(exactAt(matrix, view, 1, 0)).toBe(2n ** 60n + 6n)
  expect(exactAt(matrix, view, 0, 1)).toBe(1n)
})

test('threads are ordered by place, those without one last', () => {
  expect(byPlace([7, null, 3, 3, 0])).toEqual([4, 2, 3, 0, 1])
})

test('the strongest edges come first and their share is known', () => {
  const small = new SparseMatrix(
    3,
    new Uint32Array([0, 0, 1, 2]),
    new Uint32Array([1, 2, 0, 1]),
    new BigUint64Array([10n, 60n, 20n, 10n]),
  )
  expect(strongest(small, 2)).toEqual({
    edges: [
      { from: 0, to: 2, events: 60 },
      { from: 1, to: 0, events: 20 },
    ],
    share: 0.8,
  })
  expect(strongestPairs(small, 2)).toEqual({
    edges: [
      { from: 0, to: 2, events: 60 },
      { from: 0, to: 1, events: 30 },
    ],
    share: 0.9,
    all: 3,
  })
})
