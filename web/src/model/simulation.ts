// Simulated placements: the numbers of the page's drawings, apart from their drawing.
import type { SimulatedLink, SimulatedMachine, SimulatedPlan, SimulatedValue, SimulationPage } from './page-data'

/** The data of a page about simulated placements; null if the page is about a profile. */
export function parseSimulation(text: string): SimulationPage | null {
  const raw = JSON.parse(text) as { simulation?: SimulationPage }
  return raw.simulation ?? null
}

/** A part of a bar. */
export interface Part {
  place: string
  share: number
  /** Where it begins and how wide it is, 0 to 1. */
  start: number
  width: number
}

/**
 * What left the innermost cache: hits there are most of all accesses, hide the rest, and hardly depend on
 * the plan. All bars of a machine have the scale of the longest.
 */
export function bars(plans: SimulatedPlan[]): Part[][] {
  const beyond = plans.map(({ served }) => served.slice(1))
  const sums = beyond.map((places) => places.reduce((sum, { share }) => sum + share, 0))
  const longest = Math.max(...sums, Number.MIN_VALUE)
  return beyond.map((places) => {
    let start = 0
    return places.map(({ place, share }) => {
      const part = { place, share, start, width: share / longest }
      start += part.width
      return part
    })
  })
}

/** A node of the network, with coordinates from -1 to 1. */
export interface NetworkNode {
  label: string
  x: number
  y: number
  busy: number
}

/** A link, both ways drawn as one. */
export interface NetworkLink {
  from: number
  to: number
  /** There and back, 0 to 1. */
  busy: [number, number]
}

/** Controllers and links under a plan; nodes on a circle, in which neighbours of a ring are neighbours. */
export function network(
  machine: SimulatedMachine,
  plan: SimulatedPlan,
): { nodes: NetworkNode[]; links: NetworkLink[] } {
  const order =
    machine.network === 'ring' ? aroundRing(machine.nodes.length, plan.links) : machine.nodes.map((_, i) => i)
  const nodes = machine.nodes.map((logical, index) => {
    const angle = (2 * Math.PI * order.indexOf(index)) / machine.nodes.length - Math.PI / 2
    return { label: `node ${logical}`, x: Math.cos(angle), y: Math.sin(angle), busy: plan.controllers[index] ?? 0 }
  })
  const busy = (from: number, to: number): number =>
    plan.links.find((link) => link.from === from && link.to === to)?.busy ?? 0
  const links = plan.links
    .filter(({ from, to }) => from < to)
    .map(({ from, to }): NetworkLink => ({ from, to, busy: [busy(from, to), busy(to, from)] }))
  return { nodes, links }
}

/** The nodes in the order in which a ring passes them. */
function aroundRing(count: number, links: SimulatedLink[]): number[] {
  const order = [0]
  while (order.length < count) {
    const last = order[order.length - 1]
    const next = links.find(({ from, to }) => from === last && !order.includes(to))
    if (!next) break
    order.push(next.to)
  }
  return order
}

/** The largest load of all plans, so that their drawings have one scale; never 0. */
export function largestLoad(plans: SimulatedPlan[]): number {
  const loads = plans.flatMap(({ controllers, links }) => [...controllers, ...links.map(({ busy }) => busy)])
  return Math.max(...loads, Number.MIN_VALUE)
}

/** The plan that takes least time. */
export function fastest(plans: SimulatedPlan[]): number {
  const times = plans.map(({ time_ns }) => time_ns.value)
  return times.indexOf(Math.min(...times))
}

/** Whether the intervals of two values do not overlap, so that they can be told apart. */
export function differ(a: SimulatedValue, b: SimulatedValue): boolean {
  return Math.abs(a.value - b.value) > (a.half ?? 0) + (b.half ?? 0)
}

/** What a plan is called; pages are only named where plans differ in them. */
export function planName(plan: SimulatedPlan, plans: SimulatedPlan[]): string {
  return plans.every(({ data }) => data === plan.data) ? plan.threads : `${plan.threads}, ${plan.data}`
}
