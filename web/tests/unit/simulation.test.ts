import { describe, expect, test } from 'vitest'
import type { SimulatedMachine, SimulatedPlan } from '../../src/model/page-data'
import { bars, differ, fastest, largestLoad, network, parseSimulation, planName } from '../../src/model/simulation'

function plan(shares: number[], time: number, half: number | null = null): SimulatedPlan {
  const places = ['L1', 'L2', 'other caches', 'local memory', 'remote memory']
  return {
    threads: 'compact',
    data: 'first-touch',
    time_ns: { value: time, half },
    joules: { value: 1, half: null },
    served: shares.map((share, k) => ({ place: places[k]!, share })),
    controllers: [0.5, 0, 0, 0.25],
    links: [
      { from: 0, to: 2, busy: 0.1 },
      { from: 2, to: 0, busy: 0.7 },
      { from: 2, to: 1, busy: 0 },
      { from: 1, to: 2, busy: 0 },
      { from: 1, to: 3, busy: 0 },
      { from: 3, to: 1, busy: 0 },
      { from: 3, to: 0, busy: 0 },
      { from: 0, to: 3, busy: 0.2 },
    ],
  }
}

const machine = (plans: SimulatedPlan[]): SimulatedMachine => ({
  name: 'it',
  description: '',
  nodes: [0, 1, 2, 3],
  network: 'ring',
  plans,
  code: [],
  data: [],
})

describe('simulated placements', () => {
  test('a page is about a simulation or a profile', () => {
    expect(parseSimulation('{"findings":{}}')).toBeNull()
    expect(parseSimulation('{"simulation":{"accesses":3}}')?.accesses).toBe(3)
  })

  test('bars leave out the innermost cache and have one scale', () => {
    const [first, second] = bars([plan([0.9, 0.05, 0.01, 0.02, 0.02], 1), plan([0.8, 0.1, 0, 0.05, 0.05], 1)])
    expect(first!.map(({ place }) => place)).toEqual(['L2', 'other caches', 'local memory', 'remote memory'])
    expect(first!.map(({ width }) => width)).toEqual([0.25, 0.05, 0.1, 0.1].map((w) => expect.closeTo(w)))
    expect(first!.map(({ start }) => start)).toEqual([0, 0.25, 0.3, 0.4].map((s) => expect.closeTo(s)))
    const last = second![second!.length - 1]!
    expect(last.start + last.width).toBeCloseTo(1)
    expect(bars([plan([1, 0, 0, 0, 0], 1)])[0]!.every(({ width }) => width === 0)).toBe(true)
  })

  test('nodes of a ring are next to those that they are linked with', () => {
    const one = plan([1], 1)
    const { nodes, links } = network(machine([one]), one)
    const distance = (a: number, b: number): number => Math.hypot(nodes[a]!.x - nodes[b]!.x, nodes[a]!.y - nodes[b]!.y)
    for (const { from, to } of links) expect(distance(from, to)).toBeCloseTo(Math.SQRT2)
    expect(links).toHaveLength(4)
    expect(links.find(({ from, to }) => from === 0 && to === 2)?.busy).toEqual([0.1, 0.7])
    expect(nodes.map(({ busy }) => busy)).toEqual([0.5, 0, 0, 0.25])
    expect(largestLoad([one])).toBe(0.7)
  })

  test('plans differ where their intervals do not overlap', () => {
    const plans = [plan([1], 10, 2), plan([1], 13, 2), plan([1], 9, 0.5)]
    expect(fastest(plans)).toBe(2)
    expect(differ(plans[0]!.time_ns, plans[2]!.time_ns)).toBe(false)
    expect(differ(plans[1]!.time_ns, plans[2]!.time_ns)).toBe(true)
    expect(planName(plans[0]!, plans)).toBe('compact')
    expect(planName(plans[0]!, [plans[0]!, { ...plans[1]!, data: 'locality' }])).toBe('compact, first-touch')
  })
})
