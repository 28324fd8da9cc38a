import { expect, test } from 'vitest'
import {
  flows,
  type LineEvent,
  lineMatrix,
  ranges,
  sumByLine,
  threadList,
  useOfBytes,
  whereabouts,
} from '../../src/model/lines'
import { wantedEvents } from '../../src/selection'

const all = (): boolean => true

function event(change: Partial<LineEvent>): LineEvent {
  return {
    line: 0,
    kind: 'raw',
    sharing: 'false',
    from: 1,
    to: 2,
    fromPlace: 0,
    toPlace: 1,
    fromBytes: 0xffn,
    toBytes: 0xff00n,
    count: 10,
    ...change,
  }
}

const counters = [
  event({}),
  event({ from: 2, to: 1, fromBytes: 0xff00n, toBytes: 0xffn, count: 20 }),
  event({ kind: 'waw', toPlace: 0, count: 5 }),
]
const queue = [event({ line: 3, sharing: 'true', from: 0, fromBytes: 1n << 63n, toBytes: 3n, count: 30 })]
const byLine: LineEvent[][] = []
byLine[0] = counters
byLine[3] = queue

test('lines are summed up and sorted by what is wanted', () => {
  expect(sumByLine(byLine, all)).toEqual([
    { line: 0, reads: 30, overwrites: 5, truly: 0, falsely: 35, giver: 0, taker: 1 },
    { line: 3, reads: 30, overwrites: 0, truly: 30, falsely: 0, giver: 0, taker: 1 },
  ])
  const none = { kind: 'raw', range: null, line: null } as const
  const picked = wantedEvents({ ...none, sharing: 'all', pick: { from: [0, 2], to: [1, 2] } })
  expect(sumByLine(byLine, picked).map((sum) => [sum.line, sum.reads])).toEqual([
    [3, 30],
    [0, 20],
  ])
  const truly = wantedEvents({ ...none, sharing: 'true', pick: null })
  expect(sumByLine(byLine, truly).map((sum) => sum.line)).toEqual([3])
})

test('who uses which byte', () => {
  const use = useOfBytes(counters, all)
  expect(use[0]).toEqual({ writers: [1], readers: [1] })
  expect(use[8]).toEqual({ writers: [2], readers: [2] })
  expect(use[16]).toEqual({ writers: [], readers: [] })
  expect(useOfBytes(queue, all)[63]).toEqual({ writers: [0], readers: [] })
})

test('flows between places in the code', () => {
  const found = flows(counters, all)
  expect(found.map(({ kind, fromPlace, toPlace, count }) => [kind, fromPlace, toPlace, count])).toEqual([
    ['raw', 0, 1, 30],
    ['waw', 0, 0, 5],
  ])
  expect(found[0]).toMatchObject({ fromThreads: [1, 2], toThreads: [1, 2], fromBytes: 0xffffn, falsely: 30 })
})

test('the matrix of a line', () => {
  const matrix = lineMatrix(counters, 4, (e) => e.kind === 'raw')
  expect([matrix.get(1, 2), matrix.get(2, 1), matrix.total]).toEqual([10n, 20n, 30n])
})

test('bytes, threads and places for people', () => {
  expect([ranges(0n), ranges(0xffn), ranges((1n << 63n) | 1n), ranges((1n << 64n) - 1n)]).toEqual([
    '',
    '0–7',
    '0 63',
    '0–63',
  ])
  expect(threadList([3])).toBe('T3')
  expect(threadList([0, 1, 5, 6, 7])).toBe('T0, T1, T5–T7')
  expect(threadList([0, 2, 4, 6])).toBe('4 threads')
  const place = { function: '', file: '', line: 0, inlined_into: [], module: '', offset: 0 }
  expect(whereabouts(place)).toBe('unknown code')
  expect(whereabouts({ ...place, module: '/usr/lib/libx.so', offset: 0x99 })).toBe('libx.so+0x99')
  expect(whereabouts({ ...place, file: '/src/a.c', line: 31 })).toBe('a.c:31')
})
