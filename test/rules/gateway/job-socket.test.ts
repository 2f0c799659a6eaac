import { expect, it } from 'vitest';
import { permissionsOf } from '../../../src/gateway/auth/permissions.ts';
import { JobSocket } from '../../../src/gateway/jobs/job-socket.ts';
import { PING_TEXT } from '../../../src/protocol/index.ts';
import type { SubmitJob } from '../../../src/queue/rpc.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

/** The socket of one program, with the rules of a queue behind it. */
class Program {
  readonly queue = new QueueHarness();
  readonly heard: { type: string; jobs?: { id: string }[] }[] = [];
  readonly #socket = new JobSocket({
    permissions: () => permissionsOf(null, {}),
    submit: (jobs) =>
      this.#ask(() => this.queue.queue.do('submitAndListen', jobs as SubmitJob[], [], 'listener')) as never,
    listen: (ids) => this.#ask(() => this.queue.queue.do('listen', 'listener', ids, null)),
    nextSettled: (waitMs) =>
      new Promise((answer) => {
        this.queue.queue.wait('nextSettled', 'listener', waitMs, answer);
        this.queue.queue.answerListeners();
      }),
    leave: async () => {},
    cancel: async () => {},
    hold: () => () => {},
    takeTurn: async () => () => {},
    send: (text) => this.heard.push(JSON.parse(text)),
    close: () => {},
    sleep: () => new Promise((done) => setTimeout(done, 1)),
  });

  async say(frame: object): Promise<void> {
    this.#socket.onMessage(JSON.stringify(frame));
    await nextTurn();
  }

  async sayText(text: string, waits = true): Promise<void> {
    this.#socket.onMessage(text);
    if (waits) await nextTurn();
  }

  async submit(id: string): Promise<void> {
    const job = { id, job_type: 'chat_completion', config_id: 'cfg', payload: { messages: [] } };
    await this.say({ type: 'submit', jobs: [job] });
  }

  async cancel(id: string): Promise<void> {
    await this.#ask(() => this.queue.queue.do('cancel', id, 'cancelled', null));
    await nextTurn();
  }

  settled(): string[] {
    return this.heard.flatMap(({ jobs = [] }) => jobs.map(({ id }) => id));
  }

  async #ask<T>(ask: () => T): Promise<T> {
    const answer = ask();
    this.queue.queue.answerListeners();
    return answer;
  }
}

const nextTurn = () => new Promise((done) => setTimeout(done, 5));

it('hears of every job though it submits more before the queue that has forgotten it is asked', async () => {
  const program = new Program();
  const told = ['a', 'b', 'c', 'd'];
  for (const id of [...told, 'older']) await program.submit(id);
  for (const id of told) await program.cancel(id);
  expect(program.settled()).toEqual(told);
  // Four answers are not acknowledged: nobody asks.
  program.queue.restart();
  await program.submit('newer');
  for (const _ of told) await program.say({ type: 'ack' });
  for (const id of ['older', 'newer']) await program.cancel(id);
  expect(program.settled()).toEqual([...told, 'older', 'newer']);
});

it('hears that a job has ended after the answer to its submission', async () => {
  const program = new Program();
  await program.submit('done');
  await program.cancel('done');
  await program.submit('open');
  await program.submit('done');
  expect(program.heard.map(({ type }) => type)).toEqual([
    'submitted',
    'settled',
    'submitted',
    'submitted',
    'settled',
  ]);
});

it('is told of a frame that is nested too deep or has too many values, and its other frames are taken', async () => {
  const program = new Program();
  const deep = `{"type":"submit","jobs":[{"id":"a","payload":${'['.repeat(600)}${']'.repeat(600)}}]}`;
  const dense = `{"type":"submit","jobs":[{"id":"b","payload":{"user":[${'{},'.repeat(300_000)}{}]}}]}`;
  for (const text of [deep, dense]) await program.sayText(text);
  expect(program.heard).toMatchObject([
    { type: 'error', error: { status: 400, code: 'nested_too_deep' } },
    { type: 'error', error: { status: 400, code: 'too_many_values' } },
  ]);
  await program.submit('c');
  expect(program.heard.at(-1)).toMatchObject({ type: 'submitted', answers: [{ id: 'c' }] });
});

it('is answered one ping of those that come at once, for pongs that nobody reads pile up', async () => {
  const program = new Program();
  for (let n = 0; n < 1000; n++) await program.sayText(PING_TEXT, false);
  expect(program.heard.filter(({ type }) => type === 'pong')).toHaveLength(1);
});
