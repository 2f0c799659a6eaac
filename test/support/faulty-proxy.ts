import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** The side of a half-open connection that is told of its end. */
export type HalfOpenSide = 'neither' | 'client' | 'server';

interface Pair {
  client: Socket;
  server: Socket;
  /** Nothing passes any more, and nobody is told: the network is gone. */
  dead: boolean;
}

/** A slow network: each piece is held this long, ms. */
const SLOW_PIECE_MS = { least: 50, most: 400 };

/**
 * A TCP proxy whose network goes wrong on demand: connections are cut, stall, half-open or slow. It knows
 * nothing of what passes through it.
 */
export class FaultyProxy {
  readonly #server: Server;
  readonly #targetPort: number;
  readonly #random: () => number;
  readonly #pairs = new Set<Pair>();
  #stall: PromiseWithResolvers<void> | null = null;
  #slowUntil = 0;
  #loseAnswer = false;
  port = 0;

  constructor(targetPort: number, random: () => number) {
    this.#targetPort = targetPort;
    this.#random = random;
    this.#server = createServer((client) => this.#accept(client));
  }

  async listen(): Promise<this> {
    await new Promise<void>((listening) => this.#server.listen(0, '127.0.0.1', listening));
    this.port = (this.#server.address() as AddressInfo).port;
    return this;
  }

  get connections(): number {
    return this.#pairs.size;
  }

  /** Breaks every connection at once; both sides see a reset. */
  cut(): void {
    for (const pair of this.#pairs) this.#end(pair);
  }

  /** The next answer of the server is lost with its connection: what was asked for is done, and nobody hears. */
  loseNextAnswer(): void {
    this.#loseAnswer = true;
  }

  /** Nothing passes for this long, new connections included; then everything does, in order. */
  async stall(ms: number): Promise<void> {
    this.#stall ??= Promise.withResolvers<void>();
    const own = this.#stall;
    await sleep(ms);
    if (this.#stall === own) this.#stall = null;
    own.resolve();
  }

  /** Every piece of data comes late for this long. */
  async slow(ms: number): Promise<void> {
    this.#slowUntil = performance.now() + ms;
    await sleep(ms);
  }

  /** Connections of this moment lose their network; new ones work. One side may be told, the other is not. */
  halfOpen(told: HalfOpenSide): void {
    for (const pair of this.#pairs) {
      pair.dead = true;
      if (told === 'client') pair.client.resetAndDestroy();
      if (told === 'server') pair.server.resetAndDestroy();
    }
  }

  /** From now on the network is good. Half-open connections stay so until their own sides find out. */
  heal(): void {
    this.#slowUntil = 0;
    this.#loseAnswer = false;
    this.#stall?.resolve();
    this.#stall = null;
  }

  async close(): Promise<void> {
    this.heal();
    this.cut();
    await new Promise((closed) => this.#server.close(closed));
  }

  #accept(client: Socket): void {
    const server = connect({ port: this.#targetPort, host: '127.0.0.1', noDelay: true });
    client.setNoDelay(true);
    const pair: Pair = { client, server, dead: false };
    this.#pairs.add(pair);
    this.#forward(pair, client, server);
    this.#forward(pair, server, client);
    for (const side of [client, server]) {
      side.on('error', () => {});
      side.on('close', () => {
        if (!pair.dead) this.#end(pair);
        if (client.destroyed && server.destroyed) this.#pairs.delete(pair);
      });
    }
  }

  /** Forwards one piece at a time: a reader that stalls holds its writer back, as TCP does. */
  #forward(pair: Pair, from: Socket, to: Socket): void {
    from.on('data', (data) => {
      // Unread data would hide the other side's close behind it: it is read and lost.
      if (pair.dead) return;
      if (this.#loseAnswer && from === pair.server) {
        this.#loseAnswer = false;
        return this.#end(pair);
      }
      from.pause();
      void this.#held().then(() => {
        if (pair.dead || to.destroyed) return from.resume();
        to.write(data, () => from.resume());
      });
    });
    from.on('end', () => {
      if (!pair.dead) void this.#held().then(() => to.end());
    });
  }

  async #held(): Promise<void> {
    if (performance.now() < this.#slowUntil) {
      await sleep(SLOW_PIECE_MS.least + this.#random() * (SLOW_PIECE_MS.most - SLOW_PIECE_MS.least));
    }
    while (this.#stall) await this.#stall.promise;
  }

  #end(pair: Pair): void {
    pair.dead = true;
    pair.client.resetAndDestroy();
    pair.server.resetAndDestroy();
    this.#pairs.delete(pair);
  }
}
