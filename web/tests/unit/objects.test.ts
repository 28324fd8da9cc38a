import { expect, test } from 'vitest'
import { byteMap, falseShare, lifetime, objectName, sorted, usesOf } from '../../src/model/objects'
import type { HotObject, UseOfBytes } from '../../src/model/page-data'

function object(change: Partial<HotObject>): HotObject {
  return {
    row: 1,
    region: 'static',
    name: 'a (app)',
    callers: [],
    blocks: 0,
    bytes: 0,
    freed: null,
    through: [],
    element: '',
    stride: 0,
    lifetime_ns: null,
    lines: 1,
    events: 100,
    share: 0.5,
    sharing: { true: 40, false: 60, unknown: 0 },
    threads: [0, 1],
    usage: {
      reads: 1,
      between_ns: null,
      concurrent: null,
      allocated_by: [],
      by_others: null,
      remote: null,
      packed: null,
    },
    usage_text: [],
    uses: null,
    ...change,
  }
}

function use(change: Partial<UseOfBytes>): UseOfBytes {
  return { thread: 1, does: 'write', line: 0, first: 0, bytes: 8, at: 'a.c:7 f', events: 10, ...change }
}

test('objects are named by what is known of them', () => {
  expect(objectName(object({}))).toBe('a (app)')
  expect(objectName(object({ region: 'heap', name: 'in f at a.c:7' }))).toBe('allocated in f at a.c:7')
  expect(objectName(object({ region: 'anonymous', name: 'in f at a.c:7' }))).toBe('mapped in f at a.c:7')
  expect(objectName(object({ region: 'heap', name: '' }))).toBe('heap memory in no known block')
  expect(objectName(object({ region: 'stack', name: '' }))).toBe('stack')
  expect(falseShare(object({}))).toBe('60 %')
  expect(falseShare(object({ sharing: { true: 0, false: 0, unknown: 100 } }))).toBe('not known')
  expect(falseShare(object({ sharing: { true: 10, false: 40, unknown: 50 } }))).toBe('40 % to 90 %')
})

test('blocks are told with how long they are there', () => {
  expect(lifetime(object({ blocks: 3, freed: 2, lifetime_ns: 20_400_000 }))).toBe('freed after 20 ms')
  expect(lifetime(object({ blocks: 3, freed: 0 }))).toBe('never freed')
  expect(lifetime(object({ blocks: 3, freed: 2 }))).toBe('')
  expect(lifetime(object({ blocks: 3 }))).toBe('')
  expect(lifetime(object({ freed: 0 }))).toBe('')
})

test('columns sort, equal ones stay in the order of their events', () => {
  const list = [object({ name: 'b' }), object({ name: 'a', bytes: 8 }), object({ name: 'c', bytes: 8, events: 5 })]
  expect(sorted(list, 'size', true)).toEqual([1, 2, 0])
  expect(sorted(list, 'size', false)).toEqual([0, 1, 2])
  expect(sorted(list, 'name', false)).toEqual([1, 0, 2])
  expect(sorted(list, 'events', false)).toEqual([2, 0, 1])
})

test('the map has neighbouring bytes of the same use as one span', () => {
  const uses = [
    use({}),
    use({ does: 'read', first: 4, events: 3 }),
    use({ thread: 2, first: 60, bytes: 4, events: 50, line: null }),
    use({ thread: 3, events: 1 }),
  ]
  const { rows, more } = byteMap(uses, 2)
  // The two with the most events, by id.
  expect(rows.map((row) => row.thread)).toEqual([1, 2])
  expect(more).toBe(1)
  expect(rows[0]!.spans).toEqual([
    { first: 0, end: 4, writes: 10, reads: 0 },
    { first: 4, end: 8, writes: 10, reads: 3 },
    { first: 8, end: 12, writes: 0, reads: 3 },
  ])
  expect(rows[1]!.spans).toEqual([{ first: 60, end: 64, writes: 50, reads: 0 }])
  expect(usesOf({ users: [], hottest: [], bytes: uses, held: 1 }, 0).length).toBe(3)
})
