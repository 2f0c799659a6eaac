import type { QueueShare } from '../../fleet/rpc.ts';

/** The queue's numbers as reported to the fleet object, so that only changes are reported. */
export class ShareChanges {
  /** The reported numbers, as JSON by id; null if they are not known, so that the next share is whole. */
  #told: { sessions: Map<string, string>; pools: Map<string, string> } | null = null;

  /**
   * Returns what of the share is new, which counts as reported from now on: after a call that fails `forget` is due,
   * since the fleet object may or may not have taken it.
   * @param share a whole one
   * @returns undefined if nothing is new
   */
  of(share: QueueShare): QueueShare | undefined {
    const before = this.#told;
    const now = {
      sessions: new Map(share.sessions.map((one) => [one.worker_id, JSON.stringify(one)])),
      pools: new Map(share.pools.map((one) => [one.config_id, JSON.stringify(one)])),
    };
    this.#told = now;
    if (before === null) return share;
    const sessions = share.sessions.filter(
      ({ worker_id: id }) => before.sessions.get(id) !== now.sessions.get(id),
    );
    const pools = share.pools.filter(({ config_id: id }) => before.pools.get(id) !== now.pools.get(id));
    const gone = [...before.sessions.keys()].filter((id) => !now.sessions.has(id));
    if (sessions.length + pools.length + gone.length === 0) return undefined;
    return { at: share.at, full: false, sessions, gone, pools };
  }

  /** Forgets what was reported, since the fleet object has lost it or may not have got it. */
  forget(): void {
    this.#told = null;
  }
}
