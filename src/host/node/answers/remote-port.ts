import { CLOSE } from '../../../protocol/index.ts';
import type { WorkerSocketEvents } from '../../../relay/object/host.ts';
import type { HeldRelays } from './held-relays.ts';
import {
  channelMessage,
  type HomeMessage,
  PortMessage,
  readChannelMessage,
  readJson,
} from './peer-messages.ts';
import type { HomeSocket, LinkEvents } from './port.ts';

/** The answer sockets that workers have dialled at another process, as this home sees them. */
export class RemotePort implements LinkEvents {
  readonly #socket: HomeSocket;
  readonly #held: HeldRelays;
  readonly #channels = new Map<number, WorkerSocketEvents>();
  #isLeaving = false;

  constructor(socket: HomeSocket, held: HeldRelays) {
    this.#socket = socket;
    this.#held = held;
  }

  message(message: string | Uint8Array): void {
    if (typeof message !== 'string') return this.#records(message);
    const told = readJson(PortMessage, message);
    if (told.type === 'open') this.#open(told);
    else {
      const worker = this.#channels.get(told.channel);
      this.#channels.delete(told.channel);
      worker?.closed();
    }
  }

  closed(): void {
    const workers = [...this.#channels.values()];
    this.#channels.clear();
    for (const worker of workers) worker.closed();
  }

  /** Leaves the workers where they are when the relays close their sockets, since this process is about to end. */
  leave(): void {
    this.#isLeaving = true;
  }

  #open({ channel, queue_id, worker_id, age_ms }: Extract<PortMessage, { type: 'open' }>): void {
    const tell = (code: number, reason: string) =>
      this.#socket.send(JSON.stringify({ type: 'close', channel, code, reason } satisfies HomeMessage));
    const worker = this.#held.attach(
      queue_id,
      worker_id,
      {
        // The port itself answers the worker's pings, which are texts.
        send: (message) => {
          if (typeof message !== 'string') this.#socket.send(channelMessage(channel, message));
        },
        // The channel ends when the port says so.
        close: (code, reason) => {
          if (this.#channels.has(channel) && !this.#isLeaving) tell(code, reason);
        },
      },
      age_ms,
    );
    if (worker) this.#channels.set(channel, worker);
    else tell(CLOSE.superseded, 'a newer answer socket of this worker took over');
  }

  #records(message: Uint8Array): void {
    const read = readChannelMessage(message);
    if (read === null) throw new Error('a peer sent bytes that name no channel');
    this.#channels.get(read.channel)?.message(read.records);
  }
}
