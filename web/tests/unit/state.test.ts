import { expect, test } from 'vitest'
import { edgeInFocus, inFocus, type State, Store } from '../../src/state'

const initial: State = {
  kind: 'raw',
  sharing: 'all',
  range: null,
  pick: null,
  line: null,
  object: null,
  scale: 'linear',
  order: 'id',
  beside: false,
  layout: 0,
  theme: 'light',
  focus: null,
}

test('only those who asked hear of a change, and only of real ones', () => {
  const store = new Store(initial)
  const heard: string[] = []
  store.on(['scale', 'kind'], (state) => heard.push(`${state.scale} ${state.kind}`))
  store.on(['layout'], (state) => heard.push(`layout ${state.layout}`))
  store.set({ scale: 'log' })
  store.set({ scale: 'log' })
  store.set({ layout: 2, kind: 'waw' })
  store.set({ theme: 'dark' })
  expect(heard).toEqual(['log raw', 'log waw', 'layout 2'])
})

test('focus on a cell, on a thread, on nothing', () => {
  const cell = { from: [1], to: [2] }
  expect([0, 1, 2].map((t) => inFocus(cell, t))).toEqual([false, true, true])
  expect(edgeInFocus(cell, 1, 2)).toBe(true)
  expect(edgeInFocus(cell, 2, 1)).toBe(true)
  expect(edgeInFocus(cell, 1, 3)).toBe(false)
  const one = { from: [1], to: [] }
  expect(edgeInFocus(one, 3, 1)).toBe(true)
  expect(edgeInFocus(one, 3, 2)).toBe(false)
  expect(inFocus(null, 1)).toBe(false)
  expect(edgeInFocus(null, 1, 2)).toBe(false)
})
