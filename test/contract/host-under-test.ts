import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe } from 'vitest';
import WebSocket from 'ws';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import { type Child, groupLives, killGroup, startProcess } from '../support/processes.ts';
import type { ProbeAnswer } from './hosts/answer.ts';
import type { Probe, ProbeCall, ProbeMessage } from './probe.ts';

/** The programs that hold probes, a host each: `PROGRAM PORT FOLDER`. Both say `ready`. */
const HOSTS = ['node', 'workerd'] as const;

/** The object that was asked ended, and the next one can be asked. */
export class Retryable extends Error {}

/** A host with its probes, in a process of its own. */
export class HostUnderTest {
  readonly #program: string;
  #folder = '';
  #port = 0;
  #process: Child | null = null;
  #queues = 0;

  constructor(program: string) {
    this.#program = program;
  }

  async begin(): Promise<void> {
    this.#folder = await mkdtemp(join(tmpdir(), 'host-'));
    this.#port = await freePort();
    await this.start();
  }

  async end(): Promise<void> {
    await this.#process?.stop();
    await rm(this.#folder, { recursive: true, force: true });
  }

  /** On what is stored. */
  async start(): Promise<void> {
    const program = join(import.meta.dirname, 'hosts', this.#program);
    this.#process = startProcess(process.execPath, [program, String(this.#port), this.#folder]);
    await this.#process.waitForLine(/^ready$/);
  }

  /** Ends it without a word. */
  async kill(): Promise<void> {
    const { pid, exited } = this.#process!;
    killGroup(pid);
    await exited;
    await until(() => !groupLives(pid), 'the host is gone');
  }

  /** A probe that no other test has. */
  probe(queueId = `probe-${++this.#queues}`): ProbeUnderTest {
    return new ProbeUnderTest(`127.0.0.1:${this.#port}`, queueId);
  }
}

/** The stub of one object, as its host's callers have it. */
export class ProbeUnderTest {
  readonly id: string;
  readonly #host: string;

  constructor(host: string, id: string) {
    this.#host = host;
    this.id = id;
  }

  #address(scheme: string, name: string): string {
    return `${scheme}://${this.#host}/${name}?id=${encodeURIComponent(this.id)}`;
  }

  /** @throws Retryable where its object ended */
  async ask<Call extends ProbeCall>(
    call: Call,
    ...asked: Parameters<Probe[Call]>
  ): Promise<Awaited<ReturnType<Probe[Call]>>> {
    const response = await fetch(this.#address('http', call), {
      method: 'POST',
      body: JSON.stringify(asked),
    });
    const answer = (await response.json()) as ProbeAnswer;
    if ('value' in answer) return answer.value as Awaited<ReturnType<Probe[Call]>>;
    throw answer.mayBeAskedAgain ? new Retryable(answer.error) : new Error(answer.error);
  }

  async open(peer = 'peer'): Promise<Peer> {
    const socket = new WebSocket(this.#address('ws', peer));
    const opened = new Peer(socket);
    await once(socket, 'open');
    return opened;
  }

  /** @returns status and text of the refusal */
  async refusal(): Promise<[status: number, text: string]> {
    const socket = new WebSocket(this.#address('ws', 'refused'));
    const [, response] = await once(socket, 'unexpected-response');
    return [response.statusCode, (await response.toArray()).join('')];
  }
}

/** The other end of a probe's socket. */
export class Peer {
  readonly heard: (string | Buffer)[] = [];
  closed: { code: number; reason: string } | null = null;
  readonly #socket: WebSocket;

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.on('message', (data: Buffer, isBinary) => this.heard.push(isBinary ? data : data.toString()));
    socket.on('close', (code, reason) => {
      this.closed = { code, reason: reason.toString() };
    });
    socket.on('error', () => {});
  }

  /** @param message an object as JSON */
  say(message: ProbeMessage | string | Uint8Array): void {
    const isRaw = typeof message === 'string' || message instanceof Uint8Array;
    this.#socket.send(isRaw ? message : JSON.stringify(message));
  }

  /** @param index of what was heard since it opened */
  next(index = 0): Promise<string | Buffer> {
    return until(() => this.heard[index], `message ${index} comes`);
  }

  leave(code: number): void {
    this.#socket.close(code, 'leaving');
  }

  /** The connection breaks without a close frame. */
  vanish(): void {
    this.#socket.terminate();
  }
}

/** Asks the same of every host, of all of them at once and of each one thing at a time. */
export function promisesOfHosts(promises: (host: HostUnderTest) => void): void {
  describe.concurrent.each(HOSTS)('the host %s', (name) => {
    const host = new HostUnderTest(`${name}.ts`);
    beforeAll(() => host.begin());
    afterAll(() => host.end());
    describe('promises', { concurrent: false }, () => promises(host));
  });
}
