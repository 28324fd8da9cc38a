// What shows events, in words.

import { percent } from './numbers'
import type { EvidenceShare } from './page-data'

/** `sampled`, or `sampled, 20 % inferred`. */
export function evidence(shares: EvidenceShare[]): string {
  const all = shares.reduce((sum, share) => sum + share.events, 0)
  const words = shares.map((share, place) =>
    place === 0 ? share.evidence : `${percent(share.events / Math.max(1, all))} ${share.evidence}`,
  )
  return words.join(', ')
}
