import { randomInt } from 'node:crypto';
import type { Peer, RelayFigures } from './messages.ts';

/** The owner of the objects has the number 0. */
const MOST_HOMES = 255;

/** A number and the gateway process that has it, or had it last. */
interface Home {
  peer: Peer;
  /** Whether its link holds. */
  isLinked: boolean;
  figures: RelayFigures;
}

/**
 * Gives gateway processes their numbers. A process keeps its number while its link is broken, and over a restart of the
 * owner, since workers address running answers by it. A new process gets one of the others at random: after a restart
 * of the owner, a number that seems free may belong to a process that has not linked again yet.
 */
export class Homes {
  /** The homes by number; those that have been away for longest come first. */
  readonly #homes = new Map<number, Home>();
  /** The bytes that relays of processes received whose numbers others have now, by queue id. */
  readonly #receivedBefore = new Map<string, number>();

  /**
   * Gives a process its number.
   * @param had the number that it had; null: none
   */
  join(instance: string, address: string, had: number | null): number {
    const known = [...this.#homes.values()].find(({ peer }) => peer.instance === instance);
    const home = known?.peer.home ?? (this.#mayHave(had) ? had : this.#free());
    this.#set(home, { peer: { home, instance, address }, isLinked: true, figures: known?.figures ?? {} });
    return home;
  }

  /** Notes that the link of a process is broken. */
  leave(home: number): void {
    const left = this.#homes.get(home);
    if (left) this.#set(home, { ...left, isLinked: false });
  }

  tell(home: number, figures: RelayFigures): void {
    const told = this.#homes.get(home);
    if (told) told.figures = figures;
  }

  peers(): Peer[] {
    return [...this.#homes.values()].filter(({ isLinked }) => isLinked).map(({ peer }) => peer);
  }

  /** Returns the figures of all relays in gateway processes. */
  figures(queueId: string): { streams: number; received_bytes: number } {
    let [streams, received_bytes] = [0, this.#receivedBefore.get(queueId) ?? 0];
    for (const { isLinked, figures } of this.#homes.values()) {
      const own = figures[queueId];
      if (isLinked) streams += own?.streams ?? 0;
      received_bytes += own?.received_bytes ?? 0;
    }
    return { streams, received_bytes };
  }

  #mayHave(had: number | null): had is number {
    return Number.isInteger(had) && had! >= 1 && had! <= MOST_HOMES && !this.#homes.has(had!);
  }

  #free(): number {
    const free = Array.from({ length: MOST_HOMES }, (_, index) => index + 1).filter(
      (home) => !this.#homes.has(home),
    );
    if (free.length > 0) return free[randomInt(free.length)]!;
    const longestAway = [...this.#homes.values()].find(({ isLinked }) => !isLinked);
    if (!longestAway) throw new Error(`there are ${MOST_HOMES} gateway processes, and no number for another`);
    for (const [queueId, { received_bytes }] of Object.entries(longestAway.figures))
      this.#receivedBefore.set(queueId, (this.#receivedBefore.get(queueId) ?? 0) + received_bytes);
    return longestAway.peer.home;
  }

  #set(home: number, is: Home): void {
    this.#homes.delete(home);
    this.#homes.set(home, is);
  }
}
