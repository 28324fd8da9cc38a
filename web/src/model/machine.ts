// The machine as nested boxes (COMPROF, figure 5): sizes and places of the boxes, apart from their
// drawing. Objects with a single child are one box with it: a package with one L3 needs no two.
import type { MachineLevel, MachineNode } from './page-data'

export interface Box {
  x: number
  y: number
  width: number
  height: number
  /** Shown in the box. */
  label: string
  /** Everything that is one box here, from the outside in. */
  title: string
  depth: number
  allowed: boolean
  /** Logical number, for the box of a PU. */
  pu?: number
}

export interface Drawing {
  width: number
  height: number
  /** Outer boxes before inner ones. */
  boxes: Box[]
  /** PU → its box. */
  pus: Map<number, Box>
}

/** Size of a PU's box and what surrounds it. */
interface Metrics {
  puWidth: number
  puHeight: number
  padding: number
  label: number
}

export function metrics(pus: number, threadsPerPu: number): Metrics {
  const columns = Math.ceil(Math.sqrt(threadsPerPu))
  const rows = Math.ceil(threadsPerPu / columns)
  if (pus <= 40) {
    return { puWidth: 22 + 38 * columns, puHeight: 22 + 34 * rows, padding: 8, label: 16 }
  }
  if (pus <= 128) {
    return { puWidth: 8 + 28 * columns, puHeight: 14 + 26 * rows, padding: 5, label: 13 }
  }
  return { puWidth: 2 + 22 * columns, puHeight: 2 + 20 * rows, padding: 3, label: 11 }
}

/** Merges single-child chains. */
interface Merged {
  label: string
  title: string
  allowed: boolean
  pu?: number
  children: Merged[]
}

/** `coreLabels`: whether boxes of cores with several PUs say what they are. */
export function merge(node: MachineNode, coreLabels = true): Merged {
  const chain = [node]
  let last = node
  while (last.children?.length === 1) {
    last = last.children[0]!
    chain.push(last)
  }
  const labels = chain.map((n) => n.label).filter((label) => label !== '')
  const title = labels.join(' · ')
  // In the box of a PU there is room for its number only.
  const children = (last.children ?? []).map((child) => merge(child, coreLabels))
  const core = children.length > 0 && chain.some(({ kind }) => kind === 'core')
  const label = last.pu !== undefined ? last.label : core && !coreLabels ? '' : title
  return { label, title, allowed: last.allowed, pu: last.pu, children }
}

interface Sized {
  node: Merged
  width: number
  height: number
  /** Of each column the width, of each row the height. */
  columns: number[]
  rows: number[]
  children: Sized[]
}

/** Width by height that boxes should have: small machines share the page's width, large ones have
 *  it to themselves. */
function aspect(pus: number): number {
  return pus <= 40 ? 1.35 : 2.4
}

function size(node: Merged, m: Metrics, showPuLabels: boolean, aspect: number): Sized {
  if (node.children.length === 0) {
    const height = m.puHeight + (showPuLabels ? m.label : 0)
    return { node, width: m.puWidth, height, columns: [], rows: [], children: [] }
  }
  const children = node.children.map((child) => size(child, m, showPuLabels, aspect))
  const top = node.label === '' ? 0 : m.label
  let best: Sized | null = null
  let least = Infinity
  for (let count = 1; count <= children.length; count++) {
    const columns = most(
      children,
      (_, i) => i % count,
      ({ width }) => width,
    )
    const rows = most(
      children,
      (_, i) => Math.floor(i / count),
      ({ height }) => height,
    )
    const width = sum(columns) + (columns.length + 1) * m.padding
    const height = sum(rows) + (rows.length + 1) * m.padding + top
    const holes = columns.length * rows.length - children.length
    const off = Math.abs(Math.log(width / height / aspect)) + 4 * (holes / children.length)
    if (off >= least) continue
    least = off
    best = { node, width, height, columns, rows, children }
  }
  return best!
}

/** The greatest value in each group; groups are numbered from 0. */
function most<T>(list: T[], group: (item: T, i: number) => number, value: (item: T) => number): number[] {
  const out: number[] = []
  list.forEach((item, i) => (out[group(item, i)] = Math.max(out[group(item, i)] ?? 0, value(item))))
  return out
}

function sum(list: number[]): number {
  return list.reduce((a, b) => a + b, 0)
}

function countPus(node: MachineNode): number {
  return node.pu !== undefined ? 1 : (node.children ?? []).reduce((n, c) => n + countPus(c), 0)
}

/** The boxes of a machine with room for this many threads on each PU. */
export function drawMachine(tree: MachineNode, threadsPerPu: number): Drawing {
  const pus = countPus(tree)
  const merged = merge(tree, pus <= 40)
  const m = metrics(pus, threadsPerPu)
  const sized = size(merged, m, pus <= 128, aspect(pus))
  const boxes: Box[] = []
  const byPu = new Map<number, Box>()
  const put = (item: Sized, x: number, y: number, width: number, height: number, depth: number): void => {
    const { node, columns, rows } = item
    const { label, title, allowed, pu } = node
    const box: Box = { x, y, width, height, label, title, depth, allowed, pu }
    boxes.push(box)
    if (pu !== undefined) byPu.set(pu, box)
    const top = y + m.padding + (label === '' ? 0 : m.label)
    item.children.forEach((child, i) => {
      const [column, row] = [i % columns.length, Math.floor(i / columns.length)]
      const left = x + m.padding + sum(columns.slice(0, column)) + column * m.padding
      const above = top + sum(rows.slice(0, row)) + row * m.padding
      // All of a row are as high, all of a column as wide.
      put(child, left, above, columns[column]!, rows[row]!, depth + 1)
    })
  }
  put(sized, 0, 0, sized.width, sized.height, 0)
  return { width: sized.width, height: sized.height, boxes, pus: byPu }
}

/** Most threads on one PU in any of the layouts. */
export function mostPerPu(layouts: { pu_logical: (number | null)[] }[]): number {
  let most = 1
  for (const layout of layouts) {
    const seen = new Map<number, number>()
    for (const pu of layout.pu_logical) {
      if (pu === null) continue
      const count = (seen.get(pu) ?? 0) + 1
      seen.set(pu, count)
      most = Math.max(most, count)
    }
  }
  return most
}

/** Where threads are drawn: in the middle of their PU, or side by side when they share it. */
export function threadSpots(
  drawing: Drawing,
  pus: (number | null)[],
  labelHeight: number,
): ({ x: number; y: number } | null)[] {
  const sharing = new Map<number, number[]>()
  pus.forEach((pu, thread) => {
    if (pu !== null) sharing.set(pu, [...(sharing.get(pu) ?? []), thread])
  })
  const spots: ({ x: number; y: number } | null)[] = pus.map(() => null)
  for (const [pu, threads] of sharing) {
    const box = drawing.pus.get(pu)
    if (!box) continue
    const columns = Math.ceil(Math.sqrt(threads.length))
    const rows = Math.ceil(threads.length / columns)
    const height = box.height - labelHeight
    threads.forEach((thread, i) => {
      spots[thread] = {
        x: box.x + (box.width * ((i % columns) + 0.5)) / columns,
        y: box.y + labelHeight + (height * (Math.floor(i / columns) + 0.5)) / rows,
      }
    })
  }
  return spots
}

/** How many levels two PUs have in common: 0 = apart at the outermost, `levels.length` = the same
 *  PU. */
export function commonLevels(levels: MachineLevel[], pus: number[], a: number, b: number): number {
  const [i, j] = [pus.indexOf(a), pus.indexOf(b)]
  const split = levels.findIndex((level) => level.part[i] !== level.part[j])
  return split < 0 ? levels.length : split
}
