import OpenAI, { toFile } from 'openai';
import { afterEach, describe, expect, it } from 'vitest';
import { answerLines, type LineAnswer } from '../support/line-worker.ts';
import { until } from '../support/poll.ts';
import type { JobFrame } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';

/** Batches as OpenAI's client asks for them, run by workers that the test plays, on the runtime itself. */
const road = startTestQueue({ MAX_BATCH_LINES: '400' });
const stops: (() => void)[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
});

const ENDPOINT = '/v1/chat/completions';

function line(customId: string, content = customId, more: object = {}): string {
  const body = { model: 'tiny', messages: [{ role: 'user', content }], ...more };
  return JSON.stringify({ custom_id: customId, method: 'POST', url: ENDPOINT, body });
}

const linesOf = (count: number) => Array.from({ length: count }, (_, n) => line(`line-${n}`));

/** What an engine would answer: the prompt again. */
function echo(body: Record<string, unknown>): LineAnswer {
  const [message] = body.messages as { content: string }[];
  const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
  return {
    body: { object: 'chat.completion', choices: [{ message: { content: message?.content } }], usage },
  };
}

type Answer = (body: Record<string, unknown>, frame: JobFrame) => LineAnswer;

function queueOf() {
  const queue = road.queue();
  const client = () =>
    new OpenAI({
      baseURL: `${road.url}/v1`,
      apiKey: 'none',
      defaultHeaders: { 'x-queue-id': queue.id },
      maxRetries: 0,
    });
  return {
    client,
    cancelJob: async (id: string) => (await queue.ask(`/${id}`, { method: 'DELETE' })).status,
    async work(answer: Answer = echo, fields: object = { capacity: 8 }) {
      const worker = await queue.worker('w', { ...fields });
      const answered = answerLines(worker, answer);
      stops.push(answered.stop);
      return { worker, ...answered };
    },
    async create(lines: readonly string[], more: object = {}) {
      const text = lines.join('\n');
      const file = await toFile(new TextEncoder().encode(text), 'in.jsonl');
      const { id } = await client().files.create({ file, purpose: 'batch' });
      const asked = { input_file_id: id, endpoint: ENDPOINT, completion_window: '24h', ...more } as never;
      return (await client().batches.create(asked)) as OpenAI.Batch;
    },
    /** The batch as soon as it has this status. */
    become: (id: string, status: string, timeoutMs = 100_000) =>
      until(
        async () => {
          const batch = await client().batches.retrieve(id);
          return batch.status === status ? batch : null;
        },
        `batch ${status}`,
        { timeoutMs },
      ),
    async written(fileId: string | null | undefined) {
      const text = await (await client().files.content(fileId!)).text();
      return text
        .split('\n')
        .filter(Boolean)
        .map((one) => JSON.parse(one));
    },
  };
}

describe('a batch', () => {
  it('runs every line once and writes what its engine answered', async () => {
    const { client, work, create, become, written } = queueOf();
    const { ids } = await work();
    const count = 300;
    const created = await create(linesOf(count), { metadata: { night: 'one' } });
    expect(created).toMatchObject({ object: 'batch', status: 'validating', metadata: { night: 'one' } });
    const batch = await become(created.id, 'completed');
    expect(batch.request_counts).toEqual({ total: count, completed: count, failed: 0 });
    expect(batch).toMatchObject({ error_file_id: null, errors: null });
    expect(batch.usage).toMatchObject({ input_tokens: 3 * count, output_tokens: 2 * count });
    const output = await written(batch.output_file_id);
    expect(new Set(output.map(({ custom_id }) => custom_id)).size).toBe(count);
    expect(output).toHaveLength(count);
    for (const { custom_id, response, error } of output) {
      expect(error).toBeNull();
      expect(response.status_code).toBe(200);
      expect(response.body.choices[0].message.content).toBe(custom_id);
    }
    expect(ids).toHaveLength(count);
    const file = await client().files.retrieve(batch.output_file_id!);
    expect(file).toMatchObject({ purpose: 'batch_output', filename: `${batch.id}_output.jsonl` });
  });

  it('keeps errors of the engine apart, and has no output where nothing succeeded', async () => {
    const { work, create, become, written } = queueOf();
    await work((body) => {
      const [message] = body.messages as { content: string }[];
      return message?.content === 'bad' ? { status: 400, body: { error: { message: 'no' } } } : echo(body);
    });
    const mixed = await become((await create([line('a'), line('b', 'bad')])).id, 'completed');
    expect(mixed.request_counts).toEqual({ total: 2, completed: 1, failed: 1 });
    expect(await written(mixed.output_file_id)).toMatchObject([{ custom_id: 'a' }]);
    expect(await written(mixed.error_file_id)).toMatchObject([
      { custom_id: 'b', response: { status_code: 400, body: { error: { message: 'no' } } }, error: null },
    ]);
    const none = await become((await create([line('b', 'bad')])).id, 'completed');
    expect(none.output_file_id).toBeNull();
    expect(await written(none.error_file_id)).toHaveLength(1);
  });

  it('waits for a worker where nobody serves the model yet', async () => {
    const { client, work, create, become } = queueOf();
    const { id } = await create([line('a')]);
    await become(id, 'in_progress');
    await work();
    expect((await become(id, 'completed')).request_counts?.completed).toBe(1);
    expect((await client().batches.list()).data.map((batch) => batch.id)).toEqual([id]);
  });

  it('fails at once where nobody serves any of its models, and names those that are served', async () => {
    const { client, work, create, become } = queueOf();
    await work();
    // Until the fleet has heard of the worker a batch begins, and its lines fail one by one.
    await until(async () => (await client().models.list()).data.length > 0, 'the model is known');
    const batch = await become((await create([line('a', 'a', { model: 'tinny' })])).id, 'failed');
    expect(batch.errors?.data).toEqual([
      {
        code: 'model_not_found',
        line: 1,
        param: 'body.model',
        message: 'body.model: the model "tinny" is not served here; models: tiny.',
      },
    ]);
  });

  it('fails the lines of a model that nobody serves, and runs the others', async () => {
    const { work, create, become, written } = queueOf();
    // The batch is there before any worker is known.
    const lines = [...linesOf(3), line('b', 'b', { model: 'tinny' })];
    const { id } = await create(lines);
    await become(id, 'in_progress');
    await work();
    const batch = await become(id, 'completed');
    expect(batch.request_counts).toEqual({ total: 4, completed: 3, failed: 1 });
    expect(await written(batch.error_file_id)).toMatchObject([
      { custom_id: 'b', response: null, error: { code: 'model_not_found' } },
    ]);
  });

  it('takes line ends of Windows, blank lines, a byte order mark and numbers of many digits', async () => {
    const { work, create, become } = queueOf();
    const seeds: string[] = [];
    await work((body, frame) => {
      seeds.push((frame.payload as { body: string }).body);
      return echo(body);
    });
    const precise = line('b').replace('"model"', '"seed":12345678901234567890,"model"');
    const { id } = await create([`\ufeff${line('a')}\r`, '', precise, line('größer 🙂'), '']);
    expect((await become(id, 'completed')).request_counts?.completed).toBe(3);
    expect(seeds.some((body) => body.includes('12345678901234567890'))).toBe(true);
  });

  it.each([
    ['not JSON', ['{'], 'invalid_json_line', 1],
    ['a line twice', [line('a'), line('a')], 'duplicate_custom_id', 2],
    ['another route', [line('a'), line('b').replace(ENDPOINT, '/v1/completions')], 'url_mismatch', 2],
    ['a stream', [line('a', 'a', { stream: true })], 'invalid_parameter', 1],
    ['no custom_id', [line('a').replace('custom_id', 'id')], 'missing_required_parameter', 1],
    ['a wrong line after blank ones', ['', '\r', line('a'), '[]'], 'invalid_json_line', 4],
    ['more lines than a batch may have', linesOf(401), 'too_many_tasks', null],
    ['nothing', ['', ''], 'empty_file', null],
  ])('fails before it runs anything when its input has %s', async (_, lines, code, number) => {
    const { create, become } = queueOf();
    const batch = await become((await create(lines)).id, 'failed');
    expect(batch.errors?.data).toMatchObject([{ code, line: number }]);
    expect(batch).toMatchObject({ output_file_id: null, error_file_id: null });
  });

  it('writes a line that is too long for the queue down as an error, and goes on with every other batch', async () => {
    const { work, create, become, written } = queueOf();
    await work();
    // Under 20 MiB as a line; each quote is escaped once more on its way to the queue.
    const long = await create([line('long', '"'.repeat(5_300_000)), line('short')]);
    const other = await create([line('a')]);
    expect((await become(other.id, 'completed')).request_counts?.completed).toBe(1);
    const batch = await become(long.id, 'completed', 600_000);
    expect(batch.request_counts).toEqual({ total: 2, completed: 1, failed: 1 });
    expect(await written(batch.error_file_id)).toMatchObject([
      { custom_id: 'long', error: { code: 'invalid_request', message: expect.stringContaining('20 MiB') } },
    ]);
    // Megabytes of quotes take long on a busy machine.
  }, 900_000);

  it('is cancelled: what ran is kept, the rest is written down as not run', async () => {
    const { client, work, create, become, written } = queueOf();
    // One line in ten is never answered.
    await work(
      (body) => ((body.messages as { content: string }[])[0]!.content.endsWith('9') ? null : echo(body)),
      {
        capacity: 2,
      },
    );
    const { id } = await create(linesOf(100));
    await until(
      async () => (await client().batches.retrieve(id)).request_counts!.completed > 0,
      'some lines',
    );
    expect((await client().batches.cancel(id)).status).toBe('cancelling');
    const batch = await become(id, 'cancelled');
    const output = batch.output_file_id ? await written(batch.output_file_id) : [];
    const errors = await written(batch.error_file_id);
    const ids = [...output, ...errors].map(({ custom_id }) => custom_id);
    expect(new Set(ids).size).toBe(100);
    expect(ids).toHaveLength(100);
    expect(output).toHaveLength(batch.request_counts!.completed);
    expect(errors[0]).toMatchObject({ response: null, error: { code: 'batch_cancelled' } });
  }, 120_000);

  it('tells a line whose job somebody cancelled by itself from one that was not run in time', async () => {
    const { work, create, become, written, cancelJob } = queueOf();
    await work(() => null, { capacity: 1 });
    const { id } = await create([line('a')]);
    await until(async () => (await cancelJob(`${id}.1`)) === 200, 'the job of the line');
    const batch = await become(id, 'completed');
    expect(batch.request_counts).toEqual({ total: 1, completed: 0, failed: 1 });
    expect(await written(batch.error_file_id)).toMatchObject([{ error: { code: 'cancelled' } }]);
  });

  it('goes on after the end of the process, and no line is run twice in its files', async () => {
    const { work, create, become, client, written } = queueOf();
    await work();
    const { id } = await create(linesOf(400));
    await until(
      async () => (await client().batches.retrieve(id)).request_counts!.completed > 0,
      'some lines',
    );
    await road.restart();
    await work();
    const batch = await become(id, 'completed');
    const output = await written(batch.output_file_id);
    expect(new Set(output.map(({ custom_id }) => custom_id)).size).toBe(400);
    expect(output).toHaveLength(400);
    expect(batch.request_counts).toEqual({ total: 400, completed: 400, failed: 0 });
  }, 120_000);

  it('passes on whatever an engine may be asked, also for embeddings', async () => {
    const { work, create, become } = queueOf();
    const asked: Record<string, unknown>[] = [];
    const paths: unknown[] = [];
    await work((body, frame) => {
      asked.push(body);
      paths.push((frame.payload as { path: string }).path);
      return { body: { object: 'list', data: [], usage: { prompt_tokens: 7, total_tokens: 7 } } };
    });
    const more = { n: 3, tools: [{ type: 'function', function: { name: 'f' } }], tool_choice: 'required' };
    await become((await create([line('a', 'a', more)])).id, 'completed');
    expect(asked[0]).toMatchObject(more);
    const embed = line('e')
      .replace(ENDPOINT, '/v1/embeddings')
      .replace(/"messages":\[.*?\]/, '"input":["a"]');
    const { id } = await create([embed], { endpoint: '/v1/embeddings' });
    expect((await become(id, 'completed')).usage).toMatchObject({ input_tokens: 7, output_tokens: 0 });
    expect(asked[1]).toEqual({ model: 'tiny', input: ['a'] });
    expect(paths[1]).toBe('/v1/embeddings');
  });

  it('shows what it has written so far, which nobody deletes', async () => {
    const { client, work, create, become, written } = queueOf();
    let slow: JobFrame | null = null;
    const { settle } = await work((body, frame) => {
      const [message] = body.messages as { content: string }[];
      if (message?.content === 'bad') return { status: 400, body: { error: { message: 'no' } } };
      if (message?.content !== 'slow') return echo(body);
      slow = frame;
      return null;
    });
    const { id } = await create([line('a'), line('bad'), line('slow')]);
    const running = await until(async () => {
      const batch = (await client().batches.retrieve(id)) as OpenAI.Batch & Record<string, string>;
      return batch.partial_output_file_id && batch.partial_error_file_id ? batch : null;
    }, 'two lines');
    expect(running).toMatchObject({ output_file_id: null, error_counts: { 400: 1 } });
    const partial = running.partial_output_file_id!;
    expect(await written(partial)).toMatchObject([{ custom_id: 'a' }]);
    await expect(client().files.delete(partial)).rejects.toMatchObject({ status: 409 });
    expect((await client().files.list({ purpose: 'batch_output' })).data).toEqual([]);
    await client().batches.cancel(id);
    // What runs may end.
    settle(slow!, { body: {} });
    const ended = await become(id, 'cancelled');
    expect(ended).toMatchObject({ output_file_id: partial, partial_output_file_id: null });
    expect(ended.request_counts).toEqual({ total: 3, completed: 2, failed: 1 });
    expect(await written(partial)).toMatchObject([{ custom_id: 'a' }, { custom_id: 'slow' }]);
  });

  it('keeps its input from being deleted until it ends', async () => {
    const { client, create, become, work } = queueOf();
    const { id, input_file_id } = await create([line('a')]);
    await expect(client().files.delete(input_file_id)).rejects.toMatchObject({ status: 409 });
    await work();
    await become(id, 'completed');
    expect(await client().files.delete(input_file_id)).toMatchObject({ deleted: true });
  });
});

describe('a batch that is refused', () => {
  it.each([
    [{ endpoint: '/v1/nothing' }, 400, 'invalid_endpoint'],
    [{ completion_window: 'soon' }, 400, 'invalid_completion_window'],
    [{ input_file_id: 'file-none' }, 404, 'file_not_found'],
    [{ metadata: { long: 'x'.repeat(513) } }, 400, 'invalid_batch'],
    [{ output_expires_after: { anchor: 'created_at', seconds: 3599 } }, 400, 'invalid_batch'],
    [{ output_expires_after: { anchor: 'last_active_at', seconds: 3600 } }, 400, 'invalid_batch'],
  ])('says what is wrong with %j', async (more, status, code) => {
    const { create } = queueOf();
    await expect(create([line('a')], more)).rejects.toMatchObject({ status, code });
  });
});
