// Small helpers to make elements, and the one tooltip of the page.

type Attributes = Record<string, string | number | undefined>
type Child = Node | string

/** An HTML element with attributes and children. */
export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag)
  set(element, attributes)
  element.append(...children)
  return element
}

/** An SVG element. */
export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag)
  set(element, attributes)
  element.append(...children)
  return element
}

function set(element: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined) element.setAttribute(name, `${value}`)
  }
}

/** A titled card; `tools` stand at the right of its title. */
export function card(title: string, kind: string, ...tools: Node[]): HTMLElement {
  const head = el('header', {}, el('h2', {}, title), el('div', { class: 'tools' }, ...tools))
  return el('section', { class: `card ${kind}`, 'aria-label': title }, head)
}

/** Buttons of which one is pressed. */
export function choice<T extends string>(
  label: string,
  options: { value: T; text: string; title?: string }[],
  current: T,
  changed: (value: T) => void,
): HTMLElement {
  const group = el('div', { class: 'choice', role: 'group', 'aria-label': label })
  const buttons = options.map(({ value, text, title }) => {
    const button = el('button', { type: 'button', 'data-value': value, title }, text)
    button.addEventListener('click', () => {
      press(value)
      changed(value)
    })
    group.append(button)
    return button
  })
  const press = (value: T): void => {
    for (const button of buttons) {
      button.setAttribute('aria-pressed', `${button.dataset.value === value}`)
    }
  }
  press(current)
  return group
}

const tip = el('div', { id: 'tooltip', role: 'tooltip' })

/** Shows the tooltip near a point of the window. */
export function showTip(x: number, y: number, ...lines: Child[]): void {
  if (!tip.isConnected) document.body.append(tip)
  tip.replaceChildren(...lines.map((line) => el('div', {}, line)))
  tip.style.display = 'block'
  const { width, height } = tip.getBoundingClientRect()
  const left = x + 16 + width > innerWidth ? x - width - 12 : x + 16
  const top = y + 16 + height > innerHeight ? y - height - 12 : y + 16
  tip.style.left = `${Math.max(4, left)}px`
  tip.style.top = `${Math.max(4, top)}px`
}

export function hideTip(): void {
  tip.style.display = 'none'
}

/** The value of a CSS variable of the page. */
export function cssVariable(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim()
}

/** Sizes a canvas for the screen's pixels and returns its context in CSS pixels. */
export function prepare(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const ratio = window.devicePixelRatio || 1
  canvas.width = Math.round(width * ratio)
  canvas.height = Math.round(height * ratio)
  canvas.style.width = `${width}px`
  canvas.style.height = `${height}px`
  const g = canvas.getContext('2d')!
  g.setTransform(ratio, 0, 0, ratio, 0, 0)
  g.clearRect(0, 0, width, height)
  return g
}
