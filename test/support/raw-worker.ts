import WebSocket from 'ws';
import {
  type AnswerRecord,
  decodeRecords,
  encodeRecords,
  PING_TEXT,
  pack,
  payloadText,
  unpack,
} from '../../src/protocol/index.ts';
import { until } from './poll.ts';

type Frame = { type: string; [field: string]: unknown };
export type JobFrame = Frame & { job_id: string; fence_token: number; stream_id?: number; payload: unknown };

/** The head of an event stream. */
export const EVENT_STREAM = { status: 200, headers: { 'content-type': 'text/event-stream; charset=utf-8' } };

/**
 * Headers of a request whose status or whole text a test checks: its response begins after 6 s, not after 1.5 s as
 * others do, if its answer is not there by then. This process plays the worker, and may be slow.
 */
export const ANSWERED_FIRST = { 'x-queue-wait': '5' };

/** Headers of a request that is refused, which `ANSWERED_FIRST` would have wait: they set no more than when it begins. */
export const REFUSED_FIRST = { 'x-request-timeout': '5' };

/** Returns a text as UTF-8. */
export const bytes = (text: string) => new TextEncoder().encode(text);

/** An extended worker pings this often, ms: the queue takes one for gone that was silent for 35 s. */
const PING_EVERY_MS = 10_000;

const open = new Set<WebSocket>();

/** Closes every socket these tests opened. */
export function closeRawWorkers(): void {
  for (const socket of open) socket.terminate();
  open.clear();
}

/** A worker played by the test frame by frame, over real sockets. Only its pings come by themselves. */
export class RawWorker {
  /** A frame, or several in one message. */
  readonly messages: (Frame | Frame[])[] = [];
  readonly records: AnswerRecord[] = [];
  closed: number | null = null;
  /** Why its answer socket was closed. */
  answersClosed: { code: number; reason: string } | null = null;
  #url: string;
  #headers: Record<string, string>;
  #socket!: WebSocket;
  #answers: WebSocket | null = null;
  /** The pings of its own that are not answered yet. Their pongs are no frames that a test awaits. */
  #ownPings = 0;

  /**
   * @param url of the queue, http
   * @param headers of its upgrades
   */
  constructor(url: string, token?: string, headers: Record<string, string> = {}) {
    this.#url = url.replace(/^http/, 'ws');
    this.#headers = { ...headers, ...(token ? { authorization: `Bearer ${token}` } : {}) };
  }

  async connect(queueId = 'vllm-queue'): Promise<this> {
    this.#socket = await this.#dial(`${this.#url}/ws?queue_id=${queueId}`, (data) => {
      const message = read(new Uint8Array(data as ArrayBuffer));
      if (this.#ownPings > 0 && 'type' in message && message.type === 'pong') this.#ownPings -= 1;
      else this.messages.push(message);
    });
    this.#socket.on('close', (code) => {
      this.closed = code;
    });
    return this;
  }

  /** Registers as an extended or a base worker; an extended one dials the answer socket too. */
  async register(workerId: string, more: Record<string, unknown> & { base?: boolean } = {}): Promise<this> {
    const { base, ...fields } = more;
    const extension = {
      protocol: 1,
      instance: { id: workerId, models: ['tiny'], boot_id: workerId },
    };
    const frame = {
      worker_id: workerId,
      config_id: 'cfg',
      capacity: 1,
      ...(base ? {} : extension),
      ...fields,
    };
    this.send({ type: 'register', ...frame });
    if (base) return this;
    const registered = await until(
      () => this.frames.find(({ type }) => type === 'registered') ?? (this.closed === null ? null : 'closed'),
      'the worker is registered, or its connection closed',
    );
    if (registered === 'closed') throw new Error(`the queue closed the connection with ${this.closed}`);
    this.#pingOn(this.#socket, () => {
      this.#ownPings += 1;
    });
    if (registered.answers_url) {
      const url = new URL(String(registered.answers_url), `${this.#url}/ws`);
      this.#answers = await this.#dial(url.href, (data, isBinary) => {
        if (isBinary) this.records.push(...decodeRecords(data as ArrayBuffer));
      });
      this.#answers.on('close', (code, reason) => {
        this.answersClosed = { code, reason: reason.toString() };
      });
      this.#pingOn(this.#answers);
    }
    return this;
  }

  send(frame: unknown): void {
    this.#socket.send(typeof frame === 'string' ? frame : JSON.stringify(frame));
  }

  /** Binary records on the answer socket. */
  answer(...records: AnswerRecord[]): void {
    this.#answers?.send(encodeRecords(records));
  }

  /** A whole answer of JSON to this job, which it does not settle. */
  answerJson({ stream_id }: JobFrame, text = '{}', status = 200): void {
    const stream = stream_id!;
    const data = bytes(text);
    this.answer(
      { type: 'head', stream, head: { status, headers: { 'content-type': 'application/json' } } },
      { type: 'bytes', stream, offset: 0, data },
      { type: 'end', stream, size: data.byteLength },
    );
  }

  get frames(): Frame[] {
    return this.messages.flat();
  }

  /** The nth frame of a type, waiting for it. */
  next(type: string, index = 0): Promise<Frame> {
    return until(
      () => this.frames.filter((frame) => frame.type === type)[index],
      `frame "${type}" number ${index}`,
    );
  }

  job(index = 0): Promise<JobFrame> {
    return this.next('job', index) as Promise<JobFrame>;
  }

  result(job: JobFrame, result: unknown = { status: 'success' }): void {
    this.send({ type: 'job_result', job_id: job.job_id, fence_token: job.fence_token, result });
  }

  /** The connection breaks without a close frame. */
  vanish(): void {
    this.#socket.terminate();
    this.#answers?.terminate();
  }

  /** Pings until the socket is closed. @param onPing is called at each ping */
  #pingOn(socket: WebSocket, onPing = () => {}): void {
    const pinging = setInterval(() => {
      if (socket.readyState !== WebSocket.OPEN) return;
      onPing();
      socket.send(PING_TEXT);
    }, PING_EVERY_MS);
    pinging.unref();
    socket.once('close', () => clearInterval(pinging));
  }

  /** Listens from before the connection opens: what the other side says first comes with it. */
  #dial(url: string, onMessage: (data: WebSocket.RawData, isBinary: boolean) => void): Promise<WebSocket> {
    const socket = new WebSocket(url, { headers: this.#headers, perMessageDeflate: false });
    socket.binaryType = 'arraybuffer';
    socket.on('message', onMessage);
    open.add(socket);
    return new Promise((resolve, reject) => {
      socket.once('open', () => resolve(socket));
      socket.once('error', reject);
    });
  }
}

/** @param message text, or the bytes of a job */
function read(message: Uint8Array): Frame | Frame[] {
  const packed = unpack(message);
  if (packed === null) return JSON.parse(new TextDecoder().decode(message));
  const frame = JSON.parse(packed.head);
  const payload = pack(JSON.stringify(frame.payload), packed.body);
  return { ...frame, payload: JSON.parse(payloadText(payload) ?? 'null') };
}
