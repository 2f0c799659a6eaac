import type { QueueShare } from '../../fleet/rpc.ts';

/** What the fleet object has been told of the queue's numbers, so that it is told only of changes. */
export class ShareChanges {
  /** JSON by id; null: the next share is whole. */
  #told: { sessions: Map<string, string>; pools: Map<string, string> } | null = null;

  /**
   * What of the share is new.
   * @param share a whole one
   * @returns null: nothing; `taken` is called once the fleet object has it
   */
  of(share: QueueShare): { share: QueueShare; taken: () => void } | null {
    const before = this.#told;
    const now = {
      sessions: new Map(share.sessions.map((one) => [one.worker_id, JSON.stringify(one)])),
      pools: new Map(share.pools.map((one) => [one.config_id, JSON.stringify(one)])),
    };
    const taken = () => {
      this.#told = now;
    };
    if (before === null) return { share, taken };
    const sessions = share.sessions.filter(
      ({ worker_id: id }) => before.sessions.get(id) !== now.sessions.get(id),
    );
    const pools = share.pools.filter(({ config_id: id }) => before.pools.get(id) !== now.pools.get(id));
    const gone = [...before.sessions.keys()].filter((id) => !now.sessions.has(id));
    if (sessions.length + pools.length + gone.length === 0) return null;
    return { share: { at: share.at, full: false, sessions, gone, pools }, taken };
  }

  /** The fleet object has lost it. */
  forget(): void {
    this.#told = null;
  }
}
