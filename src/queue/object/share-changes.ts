import type { QueueShare } from '../../fleet/rpc.ts';

/** What the fleet object has been told of the queue's numbers, so that it is told only of changes. */
export class ShareChanges {
  /** JSON by id; null: nobody knows, and the next share is whole. */
  #told: { sessions: Map<string, string>; pools: Map<string, string> } | null = null;

  /**
   * What of the share is new, and told from now on: after a call that fails `forget` is due, since the fleet object may
   * have taken it or not.
   * @param share a whole one
   * @returns undefined: nothing
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

  /** The fleet object has lost it, or may not have been told. */
  forget(): void {
    this.#told = null;
  }
}
