import { expect, test } from 'vitest'
import { seriesOf } from '../../src/model/cells'
import { axisWords, binsOf, kindsOf, moment, parseData, startOf, threadName, unit } from '../../src/model/data'
import type { SparseMatrix } from '../../src/model/matrix'
import type { Thread } from '../../src/model/page-data'
import { Varints } from '../../src/model/varints'
import { matrixToShow, type Selection } from '../../src/selection'

const thread: Thread = {
  id: 1,
  name: 'w',
  parent: 0,
  start_routine: 'app+0x10',
  start_symbol: '',
  loads: 1,
  stores: 1,
  instructions: 0,
  cpu_ns: 0,
  talk_out: 0,
  talk_in: 0,
}

/** LEB128 in base64. */
function varints(...numbers: (number | bigint)[]): string {
  const bytes: number[] = []
  for (const number of numbers) {
    let left = BigInt(number)
    for (; left >= 0x80n; left >>= 7n) bytes.push(Number(left & 0x7fn) | 0x80)
    bytes.push(Number(left))
  }
  return Buffer.from(bytes).toString('base64')
}

const talk = { kind: 'raw', raw_true: 1, raw_false: 0, waw_true: 0, waw_false: 0 }

/** Three threads in four bins, two in each bin of the matrices. */
function page(kind: string, own: { seconds: number } | null = null): string {
  return JSON.stringify({
    findings: { threads: [thread, thread, thread], talk: { ...talk, kind }, measured: { own_time: own, axis: 'work' } },
    time: {
      slices: 8,
      slices_per_bin: 2,
      bounds: [0, 0.25, 0.5, 0.75, 1],
      bins_per_cell: 2,
      layers: [
        // T0 → T2 in both bins, T2 → T1 in the second.
        {
          kind,
          sharing: 'true',
          totals: varints(1, 2, 3, 4),
          cells: varints(2, 2, 0, 5, 1, 0x0102030405060708n, 5, 1, 1, 7),
        },
        // T0 → T2 and T2 → T0 in the first.
        { kind, sharing: 'false', totals: varints(9, 0, 0, 0), cells: varints(2, 1, 0, 3, 4, 1, 0, 6) },
        { kind: 'waw', sharing: 'any', totals: varints(1, 0, 0, 0), cells: varints(1, 1, 0, 1) },
      ],
      activity: { what: 'instructions', threads_per_row: 2, values: varints(1, 2, 3, 4, 5, 6, 7, 8) },
    },
    hot: { places: [], bytes: '', events: '', code: varints(5, 1, 2, 0, 1, 9) },
  })
}

test('numbers of any size come back', () => {
  const numbers = new Varints(varints(0, 127, 128, 2 ** 53, 2n ** 64n - 1n, 5))
  expect([numbers.next(), numbers.next(), numbers.next()]).toEqual([0, 127, 128])
  expect([numbers.nextBig(), numbers.nextBig(), numbers.nextBig()]).toEqual([2n ** 53n, 2n ** 64n - 1n, 5n])
  expect(numbers.done).toBe(true)
})

test('matrices by sharing and time', () => {
  const data = parseData(page('raw'))
  expect(binsOf(data.time)).toEqual({ fine: 4, coarse: 2 })
  expect(data.talk.get(0, 2)).toBe(0x0102030405060708n + 8n)
  expect([data.talk.get(2, 1), data.talk.get(2, 0), data.talk.size]).toEqual([7n, 6n, 3])
  const show = (change: Partial<Selection>): SparseMatrix =>
    matrixToShow(data, { kind: 'raw', sharing: 'all', range: null, pick: null, line: null, ...change })
  expect(show({ sharing: 'false' }).get(0, 2)).toBe(3n)
  expect(show({ sharing: 'false' }).size).toBe(2)
  expect(show({ range: [0, 1] }).get(0, 2)).toBe(8n)
  expect(show({ range: [1, 2] }).get(2, 0)).toBe(0n)
  expect(show({ range: [1, 2], sharing: 'true' }).get(2, 1)).toBe(7n)
  expect(show({ kind: 'waw', sharing: 'true' }).size).toBe(0)
  expect(show({ kind: 'waw' }).get(0, 1)).toBe(1n)
  expect(show({ kind: 'invalidation' }).size).toBe(0)
  // Both kinds together.
  expect(show({ kind: 'transfers' }).get(0, 1)).toBe(show({ kind: 'raw' }).get(0, 1) + 1n)
  expect(show({ kind: 'transfers', sharing: 'true' }).get(0, 1)).toBe(show({ kind: 'raw', sharing: 'true' }).get(0, 1))
  const ofT2 = seriesOf(data.time.layers.slice(0, 2), 2, (from) => from === 2)
  expect(ofT2).toEqual([6, 7])
  expect(data.lines.code).toMatchObject([{ kind: 'waw', sharing: 'false', from: 1, to: 2, toPlace: 1, count: 9 }])
  expect(data.time.activity).toEqual({
    what: 'instructions',
    threadsPerRow: 2,
    rows: 2,
    values: [1, 2, 3, 4, 5, 6, 7, 8],
  })
})

test("progress is in seconds where the program's own time is known", () => {
  const parts = parseData(page('raw'))
  expect(parts.time.bounds).toEqual([0, 25, 50, 75, 100])
  expect([moment(25, parts.time), axisWords(parts)]).toEqual(['25.0 %', "the program's work"])
  const own = parseData(page('raw', { seconds: 2 }))
  expect(own.time.bounds).toEqual([0, 0.5, 1, 1.5, 2])
  expect([moment(0.5, own.time), axisWords(own)]).toEqual(['0.500 s', "the program's own time"])
})

test('undirected pairs are shown in both directions', () => {
  const data = parseData(page('undirected'))
  expect([data.talk.get(1, 2), data.talk.get(2, 1)]).toEqual([7n, 7n])
  expect(kindsOf(data.findings)).toEqual(['undirected'])
})

test('words', () => {
  expect(startOf(thread)).toBe('app+0x10')
  expect(startOf({ ...thread, start_symbol: 'work()' })).toBe('work()')
  expect(startOf({ ...thread, start_routine: '' })).toBe('–')
  expect(startOf({ ...thread, id: 0, start_routine: '' })).toBe('(initial thread)')
  expect(threadName(thread)).toBe('T1 w')
  expect(threadName({ ...thread, name: '' })).toBe('T1')
  expect([unit(64), unit(4096)]).toEqual(['cache lines', 'blocks of 4096 bytes'])
})
