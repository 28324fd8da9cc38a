import { expect, test } from 'vitest'
import { drawMachine } from '../../src/model/machine'
import { bondLimit, bondsOf, eventsBetween, marksOf, neighbour } from '../../src/model/marks'
import { SparseMatrix } from '../../src/model/matrix'
import type { MachineNode } from '../../src/model/page-data'
import { pickedPairs, samePick } from '../../src/selection'

const leaf = (pu: number): MachineNode => ({ kind: 'PU', label: `P#${pu}`, pu, allowed: true })
const tree: MachineNode = {
  kind: 'machine',
  label: '',
  allowed: true,
  children: [leaf(0), leaf(1), leaf(2), leaf(3)],
}
// 0 ↔ 1: 30, 0 → 2: 5, 1 → 3: 7, 2 → 3: 11, 4 has no place.
const matrix = new SparseMatrix(
  5,
  Uint32Array.of(0, 0, 1, 1, 2, 4),
  Uint32Array.of(1, 2, 0, 3, 3, 0),
  BigUint64Array.of(10n, 5n, 20n, 7n, 11n, 99n),
)

test('threads alone have a mark each, and communication between them both ways', () => {
  const marks = marksOf(drawMachine(tree, 2), [0, 1, 1, 3, null], 10, false)
  expect(marks.map(({ threads, pu }) => [threads, pu])).toEqual([
    [[0], 0],
    [[1], 1],
    [[2], 1],
    [[3], 3],
  ])
  expect(marks[1]!.x).not.toBe(marks[2]!.x)
  const bonds = bondsOf(matrix, marks, 3)
  expect(bonds.list).toEqual([
    { a: 0, b: 1, events: 30 },
    { a: 2, b: 3, events: 11 },
    { a: 1, b: 3, events: 7 },
  ])
  expect([bonds.all, bonds.total, bonds.share, bonds.within]).toEqual([4, 53, 48 / 53, 0])
})

test('threads of a PU together are one mark', () => {
  const drawing = drawMachine(tree, 1)
  const marks = marksOf(drawing, [0, 0, 2, 2, null], 0, true)
  expect(marks.map(({ threads, pu }) => [threads, pu])).toEqual([
    [[0, 1], 0],
    [[2, 3], 2],
  ])
  const box = drawing.pus.get(2)!
  expect([marks[1]!.x, marks[1]!.y]).toEqual([box.x + box.width / 2, box.y + box.height / 2])
  const bonds = bondsOf(matrix, marks, 10)
  expect(bonds.list).toEqual([{ a: 0, b: 1, events: 12 }])
  expect([bonds.within, bonds.share]).toEqual([41 / 53, 12 / 53])
  expect(eventsBetween(matrix, [0, 1], [2, 3])).toBe(12n)
})

test('arrow keys lead to the nearest mark ahead', () => {
  const at = (x: number, y: number) => ({ threads: [0], pu: 0, x, y })
  const marks = [at(0, 0), at(10, 0), at(12, 1), at(0, 10), at(11, 10)]
  expect(neighbour(marks, 0, 1, 0)).toBe(1)
  expect(neighbour(marks, 1, 1, 0)).toBe(2)
  expect(neighbour(marks, 1, 0, 1)).toBe(4)
  expect(neighbour(marks, 4, -1, 0)).toBe(3)
  expect(neighbour(marks, 3, 0, -1)).toBe(0)
  expect(neighbour(marks, 0, -1, 0)).toBe(0)
})

test('the number of lines is bounded', () => {
  expect([bondLimit(2), bondLimit(100), bondLimit(5000)]).toEqual([40, 400, 1200])
})

test('a pick of a thread takes both directions, one of a cell only its own', () => {
  const cell = pickedPairs({ from: [1], to: [2] })
  expect([cell(1, 2), cell(2, 1), cell(1, 3)]).toEqual([true, false, false])
  const pair = pickedPairs({ from: [1], to: [2], both: true })
  expect([pair(1, 2), pair(2, 1), pair(2, 3)]).toEqual([true, true, false])
  const thread = pickedPairs({ from: [1], to: null, both: true })
  expect([thread(1, 9), thread(9, 1), thread(9, 8)]).toEqual([true, true, false])
  expect(pickedPairs(null)(3, 4)).toBe(true)
  expect(samePick({ from: [1], to: [2] }, { from: [1], to: [2], both: true })).toBe(false)
  expect(samePick({ from: [1], to: null, both: true }, { from: [1], to: null, both: true })).toBe(true)
})
