import { parseFrames, WorkerFrame } from '../../protocol/index.ts';
import type { Queue } from '../queue.ts';
import type { Connection } from '../store/ports.ts';
import type { Commits } from './commits.ts';

/** Takes what workers say to the rules: with a commit, or at once where it needs none and overtakes nothing. */
export class Hearing {
  readonly #queue: () => Queue;
  readonly #commits: Commits;

  constructor(queue: () => Queue, commits: Commits) {
    this.#queue = queue;
    this.#commits = commits;
  }

  /** @param text of one message of the control socket */
  async hear(connection: Connection, text: string): Promise<void> {
    const queue = this.#queue();
    const taken = parseFrames(WorkerFrame, text).map((frame) => {
      const take = () => queue.onFrame(connection, frame, crypto.randomUUID());
      const needsCommit = this.#commits.isGathering || !queue.frames.staysInMemory(connection, frame);
      return needsCommit ? this.#commits.together(take) : this.#commits.atOnce(take);
    });
    await Promise.all(taken);
  }
}
