import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** An address that leads to one server and later to another, as a balancer in front of a primary and its standby does. */
export class MovingAddress {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #target: number | null;

  private constructor(target: number) {
    this.#target = target;
    this.#server = createServer((from) => {
      this.#sockets.add(from);
      from.once('close', () => this.#sockets.delete(from));
      from.on('error', () => {});
      if (this.#target === null) return void from.destroy();
      const to = connect(this.#target, '127.0.0.1');
      to.on('error', () => from.destroy());
      to.once('close', () => from.destroy());
      from.once('close', () => to.destroy());
      from.pipe(to).pipe(from);
    });
  }

  static async to(target: number): Promise<MovingAddress> {
    const address = new MovingAddress(target);
    await new Promise<void>((listening) => address.#server.listen(0, '127.0.0.1', listening));
    return address;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Breaks all connections; new ones lead to another port. @param target null: to none */
  moveTo(target: number | null): void {
    this.#target = target;
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  async close(): Promise<void> {
    this.moveTo(null);
    await new Promise((closed) => this.#server.close(closed));
  }
}
