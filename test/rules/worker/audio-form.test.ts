import { describe, expect, test } from 'vitest';
import { settled } from '../../support/virtual-clock.ts';
import { WorkerBench } from '../../support/worker-fakes.ts';

const PATH = '/v1/audio/transcriptions';
const DATA = `data:audio/wav;base64,${Buffer.from('RIFF').toString('base64')}`;

async function asked(body: object, path = PATH): Promise<WorkerBench> {
  const bench = new WorkerBench();
  bench.fetch = async () => new Response('from afar');
  await bench.ready();
  await bench.push({ job_type: 'engine_request', payload: { path, body: JSON.stringify(body) } });
  await settled();
  return bench;
}

function formOf(bench: WorkerBench): Promise<FormData> {
  const { body, contentType = '' } = bench.engine.last.call;
  return new Response(body, { headers: { 'content-type': contentType } }).formData();
}

describe('audio that a request in JSON names', () => {
  test.each([
    ['in the request', DATA, 'RIFF'],
    ['at an address', 'https://files.example/a.wav', 'from afar'],
  ])('goes to the engine as a form: %s', async (_where, file_url, audio) => {
    const more = { 'timestamp_granularities[]': ['word', 'segment'], temperature: 0, prompt: null };
    const bench = await asked({ file_url, model: 'tiny', language: 'de', ...more });
    const form = await formOf(bench);
    expect(bench.engine.last.call.path).toBe(PATH);
    expect(await (form.get('file') as File).text()).toBe(audio);
    const { file: _, ...fields } = Object.fromEntries(form);
    expect(fields).toEqual({
      model: 'tiny',
      language: 'de',
      'timestamp_granularities[]': 'segment',
      temperature: '0',
    });
    expect(form.getAll('timestamp_granularities[]')).toEqual(['word', 'segment']);
    bench.engine.last.json(200, { text: 'hallo' });
    await settled();
    expect(bench.results[0]?.result).toMatchObject({ response: { status: 200, body: { text: 'hallo' } } });
  });

  test.each([
    ['https://files.example/calls/monday.mp3?signature=x.y', 'monday.mp3'],
    ['https://files.example/a', 'audio.wav'],
    ['https://files.example/page.html', 'audio.wav'],
    ['data:audio/mpeg;base64,QQ==', 'audio.mp3'],
    ['data:audio/ogg;codecs=opus;base64,QQ==', 'audio.ogg'],
    ['data:;base64,QQ==', 'audio.wav'],
  ])('has a name that tells its format: %s', async (file_url, name) => {
    const form = await formOf(await asked({ file_url, model: 'tiny' }));
    expect((form.get('file') as File).name).toBe(name);
  });

  test('is translated where that is asked for, by the engine’s own name for its model', async () => {
    const bench = await asked({ file_url: DATA, model: 'default' }, '/v1/audio/translations');
    expect(bench.engine.last.call.path).toBe('/v1/audio/translations');
    expect((await formOf(bench)).get('model')).toBe('tiny');
  });

  test.each([
    [{ file_url: 'data:audio/wav,RIFF' }, 'file_url: '],
    [{ file_url: DATA, file: 'x' }, 'file: '],
  ])('is not asked for as %j', async (body, message) => {
    const bench = await asked(body);
    expect(bench.engine.exchanges).toEqual([]);
    expect(bench.errors).toMatchObject([
      { code: 'invalid_request', error: expect.stringContaining(message) },
    ]);
  });

  test.each([
    [{ file_url: DATA }, '/v1/chat/completions'],
    [{ model: 'tiny' }, PATH],
  ])('stays as it is: %j to %s', async (body, path) => {
    const bench = await asked(body, path);
    expect(bench.engine.last.body).toEqual(body);
  });

  test('a long text that is no JSON stays as it is too, and keeps the worker from nothing else', async () => {
    const bench = await new WorkerBench().ready();
    const body = 'x'.repeat(16 * 1024 * 1024);
    await bench.push({ job_type: 'engine_request', payload: { path: PATH, body } });
    expect(bench.engine.last.call.body === body).toBe(true);
  });
});
