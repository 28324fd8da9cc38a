import { expect, test } from 'vitest'
import { evidence } from '../../src/model/evidence'

test('evidence has words', () => {
  const inferred = { evidence: 'inferred', events: 20, hits: 2 }
  const sampled = { evidence: 'sampled', events: 80, hits: 5 }
  expect(evidence([inferred])).toBe('inferred')
  expect(evidence([sampled, inferred])).toBe('sampled, 20 % inferred')
  expect(evidence([])).toBe('')
})
