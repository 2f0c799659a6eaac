import type { Connection, Session } from '../../src/queue/store/ports.ts';
import type { Link } from './network.ts';
import type { Oracle } from './oracle.ts';
import { frameText } from './trace.ts';

/** What a connection asks of the object it belongs to. */
interface Host {
  readonly oracle: Oracle;
  hold(output: () => void): void;
  /** Hears of every frame that is written. */
  readonly retries: { sent(worker: string, text: string): void };
  /** Hears of every frame that left. */
  readonly forger: { sent(to: ControlConnection, text: string): void };
}

/** The queue's end of one control socket. */
export class ControlConnection implements Connection {
  readonly id: string;
  readonly link: Link;
  /** Closed from this side: what still comes is not listened to. */
  isGivenUp = false;
  readonly #host: Host;
  #session: Session | null = null;

  constructor(host: Host, link: Link) {
    this.#host = host;
    this.link = link;
    this.id = link.name;
  }

  load(): Session | null {
    return this.#session;
  }

  save(session: Session | null): void {
    this.#session = structuredClone(session);
  }

  lastHeardMs(): number {
    return this.link.heardAt;
  }

  send(frame: object): void {
    this.sendJob(JSON.stringify(frame));
  }

  sendJob(frame: string | Uint8Array<ArrayBuffer>): void {
    const text = typeof frame === 'string' ? frame : frameText(frame);
    this.#host.oracle.frameWritten(text, this.link);
    if (this.#session) this.#host.retries.sent(this.#session.worker_id, text);
    this.#host.hold(() => {
      this.#host.oracle.frameSent(text);
      this.#host.forger.sent(this, text);
      this.link.sendDown(frame);
    });
  }

  close(code: number, reason: string): void {
    this.isGivenUp = true;
    this.#host.hold(() => this.link.closeDown(code, reason));
  }
}
