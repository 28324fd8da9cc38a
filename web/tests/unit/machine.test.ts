import { expect, test } from 'vitest'
import { type Box, commonLevels, drawMachine, merge, mostPerPu, threadSpots } from '../../src/model/machine'
import type { MachineNode } from '../../src/model/page-data'

/** Packages of an L3 of cores of PUs. */
function machine(packages: number, cores: number, smt: number): MachineNode {
  let pu = 0
  const many = (n: number, make: (i: number) => MachineNode): MachineNode[] =>
    Array.from({ length: n }, (_, i) => make(i))
  const leaf = (): MachineNode => {
    const number = pu++
    return { kind: 'PU', label: `P#${number}`, pu: number, allowed: true }
  }
  const core = (i: number): MachineNode => ({
    kind: 'core',
    label: `core ${i}`,
    allowed: true,
    children: many(smt, leaf),
  })
  const pack = (i: number): MachineNode => ({
    kind: 'package',
    label: `package ${i}`,
    allowed: true,
    children: [{ kind: 'L3', label: 'L3 32 MiB', allowed: true, children: many(cores, core) }],
  })
  return { kind: 'machine', label: '', allowed: true, children: many(packages, pack) }
}

test('single-child chains become one box', () => {
  const merged = merge(machine(2, 2, 1))
  expect(merged.children.map((c) => c.label)).toEqual(['package 0 · L3 32 MiB', 'package 1 · L3 32 MiB'])
  const pu = merged.children[1]!.children[1]!
  expect([pu.label, pu.title, pu.pu]).toEqual(['P#3', 'core 1 · P#3', 3])
})

test('cores of large machines have no label of their own', () => {
  expect(merge(machine(1, 2, 2), false).children.map((core) => core.label)).toEqual(['', ''])
  expect(merge(machine(1, 2, 2), true).children[0]!.label).toBe('core 0')
  // Packages keep theirs, also where a core is a single PU.
  expect(merge(machine(2, 80, 1), false).children[1]!.label).toBe('package 1 · L3 32 MiB')
})

function inside(inner: Box, outer: Box): boolean {
  return (
    inner.x > outer.x &&
    inner.y > outer.y &&
    inner.x + inner.width < outer.x + outer.width &&
    inner.y + inner.height < outer.y + outer.height
  )
}

function apart(a: Box, b: Box): boolean {
  return a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y
}

test.each([
  [1, 1, 1],
  [2, 2, 1],
  [2, 14, 2],
  [4, 32, 2],
])('boxes of %d packages × %d cores × %d nest and never overlap', (packages, cores, smt) => {
  const drawing = drawMachine(machine(packages, cores, smt), 3)
  expect(drawing.pus.size).toBe(packages * cores * smt)
  const deepest = Math.max(...drawing.boxes.map((box) => box.depth))
  for (let depth = 0; depth <= deepest; depth++) {
    const level = drawing.boxes.filter((box) => box.depth === depth)
    const above = drawing.boxes.filter((box) => box.depth === depth - 1)
    level.forEach((box, i) => {
      if (depth > 0) expect(above.filter((outer) => inside(box, outer))).toHaveLength(1)
      expect(level.slice(i + 1).every((other) => apart(box, other))).toBe(true)
    })
  }
})

test('threads that share a PU stand side by side', () => {
  const drawing = drawMachine(machine(1, 2, 1), 2)
  const spots = threadSpots(drawing, [1, 0, 1, null, 99], 10)
  const [first, second] = [spots[0]!, spots[2]!]
  expect(first.y).toBe(second.y)
  expect(second.x - first.x).toBeCloseTo(drawing.pus.get(1)!.width / 2, 9)
  expect(spots[3]).toBeNull()
  expect(spots[4]).toBeNull()
  const alone = drawing.pus.get(0)!
  expect(spots[1]!.x).toBe(alone.x + alone.width / 2)
})

test('room is made for the fullest PU of all layouts', () => {
  expect(mostPerPu([{ pu_logical: [0, 1, 0] }, { pu_logical: [2, 2, 2] }])).toBe(3)
  expect(mostPerPu([{ pu_logical: [null, null] }])).toBe(1)
})

test('common levels are counted from the outside', () => {
  const levels = [
    { name: 'between packages', part: [0, 0, 1, 1] },
    { name: 'between cores', part: [0, 1, 2, 3] },
  ]
  const pus = [4, 5, 8, 9]
  expect(commonLevels(levels, pus, 4, 9)).toBe(0)
  expect(commonLevels(levels, pus, 8, 9)).toBe(1)
  expect(commonLevels(levels, pus, 5, 5)).toBe(2)
})
