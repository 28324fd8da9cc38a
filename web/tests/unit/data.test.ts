import { expect, test } from 'vitest'
import { parseData, startOf, threadName, unit } from '../../src/model/data'

const thread = {
  id: 1,
  name: 'w',
  parent: 0,
  start_routine: 'app+0x10',
  start_symbol: '',
  loads: 1,
  stores: 1,
  talk_out: 0,
  talk_in: 0,
}

/** Little-endian bytes in base64. */
function base64(array: Uint32Array | BigUint64Array): string {
  return Buffer.from(array.buffer).toString('base64')
}

test('matrices come back from base64', () => {
  const none = { from: '', to: '', count: '' }
  const data = parseData(
    JSON.stringify({
      findings: { threads: [thread, thread, thread] },
      matrices: {
        raw: {
          from: base64(new Uint32Array([0, 2])),
          to: base64(new Uint32Array([2, 1])),
          count: base64(new BigUint64Array([0x0102030405060708n, 7n])),
        },
        waw: none,
        invalidation: none,
      },
    }),
  )
  expect(data.matrices.raw.get(0, 2)).toBe(0x0102030405060708n)
  expect(data.matrices.raw.get(2, 1)).toBe(7n)
  expect(data.matrices.waw.size).toBe(0)
  expect(data.matrices.waw.threads).toBe(3)
})

test('words', () => {
  expect(startOf(thread)).toBe('app+0x10')
  expect(startOf({ ...thread, start_symbol: 'work()' })).toBe('work()')
  expect(startOf({ ...thread, start_routine: '' })).toBe('(initial thread)')
  expect(threadName(thread)).toBe('T1 w')
  expect(threadName({ ...thread, name: '' })).toBe('T1')
  expect([unit(64), unit(4096)]).toEqual(['cache lines', 'blocks of 4096 bytes'])
})
