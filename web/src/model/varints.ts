// Whole numbers as crates/report/src/page/varints.rs writes them: LEB128 in base64.

/** Reads numbers one after the other. */
export class Varints {
  private readonly bytes: Uint8Array
  private at = 0

  constructor(base64: string) {
    const text = atob(base64)
    this.bytes = new Uint8Array(text.length)
    for (let i = 0; i < text.length; i++) this.bytes[i] = text.charCodeAt(i)
  }

  get done(): boolean {
    return this.at >= this.bytes.length
  }

  /** The next number; exact up to 2^53. */
  next(): number {
    let value = 0
    let factor = 1
    for (;;) {
      const byte = this.bytes[this.at++]!
      value += (byte & 0x7f) * factor
      if (byte < 0x80) return value
      factor *= 128
    }
  }

  /** The next number, whatever its size. */
  nextBig(): bigint {
    const start = this.at
    const value = this.next()
    if (this.at - start < 8) return BigInt(value)
    let exact = 0n
    for (let i = this.at - 1; i >= start; i--) exact = (exact << 7n) | BigInt(this.bytes[i]! & 0x7f)
    return exact
  }

  /** All numbers that are left. */
  rest(): number[] {
    const numbers: number[] = []
    while (!this.done) numbers.push(this.next())
    return numbers
  }
}
