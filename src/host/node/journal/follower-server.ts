import { HttpError, retryAfter } from '../../../gateway/errors.ts';
import { createServer, type RunningServer } from '../http/server.ts';
import type { Place } from './journal.ts';

/** A follower that is this far behind the journal is not healthy, s: its takeover would take longer than usual. */
const CLOSE_SECONDS = 5;

/** Answers for a process that follows a journal, and so has nothing to answer from. */
export class FollowerServer {
  readonly #server: RunningServer;
  readonly #state: FollowerState;

  private constructor(server: RunningServer, state: FollowerState) {
    this.#server = server;
    this.#state = state;
  }

  /** @param place returns the last entry that the files have @throws the system's error if it cannot listen */
  static async listen(at: { host: string; port: number }, place: () => Place): Promise<FollowerServer> {
    const state: FollowerState = { owner: '', followedAt: performance.now(), place };
    const server = await createServer({ ...at, fetch: (request) => answer(request, state) });
    return new FollowerServer(server, state);
  }

  /** The address at which this machine reaches it, without a trailing slash. */
  get url(): string {
    return this.#server.url;
  }

  /** Notes that the files have everything that the journal had just now. @param owner the owner's address, or '' */
  followed(owner: string): void {
    this.#state.owner = owner;
    this.#state.followedAt = performance.now();
  }

  async close(): Promise<void> {
    await this.#server.close(0);
  }
}

interface FollowerState {
  /** The address of the owner; empty: it is unknown. */
  owner: string;
  /** The time of the last look at the journal, ms of `performance.now()`. */
  followedAt: number;
  place(): Place;
}

function answer(request: Request, { owner, followedAt, place }: FollowerState): Response {
  if (new URL(request.url).pathname === '/health') {
    const behind_seconds = (performance.now() - followedAt) / 1000;
    const isClose = behind_seconds < CLOSE_SECONDS;
    const told = {
      status: isClose ? 'ok' : 'behind',
      role: 'follower',
      owner: owner || null,
      entry: place().seq,
      behind_seconds,
    };
    return Response.json(told, { status: isClose ? 200 : 503 });
  }
  const where = owner ? ` The owner is at ${owner}.` : '';
  throw new HttpError(
    503,
    `This process follows the journal of the queue, and takes over when the owner is gone; until then it answers nothing.${where}`,
    'not_owner',
    retryAfter(1),
  );
}
