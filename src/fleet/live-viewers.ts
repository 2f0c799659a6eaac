import type { HostSocket } from '../durable/host.ts';
import type { Alarm } from '../durable/ports.ts';
import { CLOSE, FleetViewerFrame, jsonOrText } from '../protocol/index.ts';
import type { Projection } from './projection.ts';

/** A viewer gets at most one frame in this time, ms. */
const FRAME_EVERY_MS = 1000;
/**
 * A viewer that has been silent for this long, ms, gets no frames until it is heard again. Its `ping` waits for the
 * `pong` before it, which comes behind all frames: a viewer that does not keep up falls silent, and nothing piles up.
 */
const SILENT_AFTER_MS = 30_000;
/** A viewer that has been silent for this long, ms, is taken for gone. */
const GONE_AFTER_MS = 300_000;

/** The interval at which the object checks that a viewer's page is still signed in, ms. */
const SIGN_IN_CHECKED_EVERY_MS = 10_000;

/** The state of a viewer, which its socket keeps while the object sleeps. */
export interface Watching {
  isPaused: boolean;
  /** The epoch of the viewer's version; null: the viewer has no version. */
  epoch: string | null;
  version: number;
  /**
   * Whether the viewer has asked and was sent nothing since. It gets an answer even if nothing is new, and so knows
   * that its view is current.
   */
  isAsking?: boolean;
  /** When the last frame was sent to the viewer, epoch ms. */
  sentAt: number;
  /** When the viewer's last message came, pings aside, epoch ms. */
  heardAt: number;
  /**
   * The sign-in whose cookie opened the socket (tokens.ts), and when it was last found valid, epoch ms; left out: a
   * token opened the socket.
   */
  signIn?: { id: string; goodAt: number };
  /** The SHA-256 of the token behind the socket, and when it expires, epoch ms; left out: none are configured. */
  token?: { sha256: string; expires_at?: number };
}

/** The sign-in and the token that a viewer showed when it opened its socket. */
export interface OpenedWith {
  /** The id of the sign-in whose cookie it was. */
  signIn?: string;
  token?: { sha256: string; expires_at?: number };
}

export type ViewerSocket = Omit<HostSocket<Watching>, 'id' | 'isClosing'>;

export interface LiveViewersPorts {
  sockets(): ViewerSocket[];
  view: Pick<Projection, 'epoch' | 'version' | 'refresh' | 'frame'>;
  now(): number;
  /** Wakes the object, whose `alarm` calls `closeExpired`; no other part sets this alarm. */
  alarm: Alarm;
  isSignedIn(id: string): Promise<boolean>;
  /** Runs something after a time, ms; keeps the object awake until then. */
  after(ms: number, run: () => void): void;
  /** Keeps the object at work until this settles. */
  background(work: Promise<void>): void;
}

/**
 * Sends the fleet's view to its viewers. While there is one, the view is refreshed every second, since workers fall
 * silent without an event; while there is none, nothing runs. A viewer is sent what is new since its version, so that a
 * viewer that was paused, or is slow, continues with the newest state.
 */
export class LiveViewers {
  readonly #ports: LiveViewersPorts;
  /** When the view was last found to have changed, epoch ms. */
  #changedAt = 0;
  /** The number of looks planned so far, so that only the newest plan is carried out. */
  #looks = 0;
  /** The sign-ins that are being checked. */
  readonly #checking = new Set<string>();

  constructor(ports: LiveViewersPorts) {
    this.#ports = ports;
  }

  /** Takes a socket that was opened; nothing is sent to it before it asks. */
  opened(socket: ViewerSocket, { signIn, token }: OpenedWith = {}): void {
    const now = this.#ports.now();
    const watching = { isPaused: true, epoch: null, version: 0, sentAt: 0, heardAt: now };
    socket.save({
      ...watching,
      ...(signIn !== undefined && { signIn: { id: signIn, goodAt: now } }),
      ...(token && { token }),
    });
    if (token?.expires_at !== undefined) this.closeExpired();
  }

  /**
   * Closes the sockets of tokens that may be refused now, or whose rights may have changed. @param secrets SHA-256 of
   * each
   */
  tokensChanged(secrets: readonly string[]): void {
    for (const socket of this.#ports.sockets()) {
      const sha256 = socket.load().token?.sha256;
      if (sha256 !== undefined && secrets.includes(sha256))
        socket.close(CLOSE.restarting, 'the token has changed');
    }
  }

  /** Closes the sockets whose tokens have expired, and sets the alarm for when the next one does. */
  closeExpired(): void {
    const { alarm, sockets, now } = this.#ports;
    let next = Number.POSITIVE_INFINITY;
    for (const socket of sockets()) {
      const expiresAt = socket.load().token?.expires_at ?? Number.POSITIVE_INFINITY;
      if (expiresAt <= now()) socket.close(1008, 'the token has expired');
      else next = Math.min(next, expiresAt);
    }
    if (next < Number.POSITIVE_INFINITY) alarm.set(next);
    else alarm.clear();
  }

  /** Closes the sockets of a sign-in that has ended. */
  signedOut(signIn: string): void {
    for (const socket of this.#ports.sockets()) {
      if (socket.load().signIn?.id === signIn) socket.close(1008, 'signed out');
    }
  }

  onMessage(socket: ViewerSocket, text: string): void {
    const frame = FleetViewerFrame.safeParse(jsonOrText(text));
    if (!frame.success) {
      socket.close(1008, 'expected {"type":"watch"} or {"type":"pause"}');
      return;
    }
    const heardAt = this.#ports.now();
    const before = socket.load();
    if (frame.data.type === 'pause') {
      socket.save({ ...before, isPaused: true, heardAt });
      return;
    }
    const { epoch = null, version = 0 } = frame.data;
    socket.save({ ...before, isPaused: false, isAsking: true, epoch, version, heardAt });
    this.#look();
  }

  /** Shows viewers a possible change at once, or a second after the last change. */
  changed(): void {
    if (this.#ports.now() - this.#changedAt >= FRAME_EVERY_MS) this.#look();
  }

  #look(): void {
    const { view, now, after } = this.#ports;
    const at = now();
    const watching = this.#watching(at);
    if (watching.length === 0) return;
    const before = view.version;
    view.refresh(at);
    if (view.version !== before) this.#changedAt = at;
    for (const { socket, viewer } of watching) {
      if (viewer.signIn && at - viewer.signIn.goodAt >= SIGN_IN_CHECKED_EVERY_MS) {
        this.#ports.background(this.#checkSignIn(viewer.signIn.id));
      } else if (at - viewer.sentAt >= FRAME_EVERY_MS) this.#send(socket, viewer, at);
    }
    this.#looks += 1;
    const planned = this.#looks;
    after(FRAME_EVERY_MS, () => {
      if (planned === this.#looks) this.#look();
    });
  }

  /** Checks a sign-in, whose viewers are sent nothing until it proves valid. */
  async #checkSignIn(id: string): Promise<void> {
    if (this.#checking.has(id)) return;
    this.#checking.add(id);
    // A sign-in that cannot be checked now is checked at the next look.
    const isGood = await this.#ports.isSignedIn(id).catch(() => null);
    this.#checking.delete(id);
    if (isGood === false) this.signedOut(id);
    if (isGood !== true) return;
    for (const socket of this.#ports.sockets()) {
      const viewer = socket.load();
      if (viewer.signIn?.id === id) socket.save({ ...viewer, signIn: { id, goodAt: this.#ports.now() } });
    }
    this.#look();
  }

  /** Returns the viewers that look now and keep up. */
  #watching(at: number): { socket: ViewerSocket; viewer: Watching }[] {
    return this.#ports.sockets().flatMap((socket) => {
      const viewer = socket.load();
      const silentFor = at - Math.max(viewer.heardAt, socket.pingedAt());
      if (silentFor > GONE_AFTER_MS) socket.close(1001, 'nothing was heard of this viewer for 5 minutes');
      return viewer.isPaused || silentFor > SILENT_AFTER_MS ? [] : [{ socket, viewer }];
    });
  }

  #send(socket: ViewerSocket, viewer: Watching, at: number): void {
    const { view } = this.#ports;
    const { epoch, version } = view;
    const known = viewer.epoch === epoch ? viewer.version : null;
    if (known === version && !viewer.isAsking) return;
    socket.send(view.frame(known));
    socket.save({ ...viewer, isAsking: false, epoch, version, sentAt: at });
  }
}
