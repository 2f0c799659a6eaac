import { describe, expect, it } from 'vitest';
import type { Webhook } from '../../../src/webhooks/outbox.ts';
import { QueueHarness, ticketOf } from '../../support/queue-harness.ts';

const settings = { webhook_hosts: 'a.test,b.test', webhook_secret: 'whsec_x' };

/** A queue with settled jobs whose settlements are to be posted there. */
function settled(urls: readonly string[], queue = new QueueHarness(settings)): QueueHarness {
  for (const webhook of urls) queue.queue.do('cancel', queue.job({ webhook }), 'cancelled', null);
  queue.advance(1);
  return queue;
}

const hosts = (webhooks: readonly Webhook[]) => webhooks.map(({ host }) => host);

describe('webhooks', () => {
  it('are taken once, and again when nothing was heard of them for a minute', () => {
    const queue = settled(['https://a.test/1']);
    const [webhook] = queue.queue.webhooks.take();
    expect(webhook).toMatchObject({ host: 'a.test', url: 'https://a.test/1', tries: 0 });
    expect(queue.queue.webhooks.take()).toEqual([]);
    queue.restart();
    expect(queue.queue.webhooks.take()).toEqual([]);
    queue.advance(61);
    expect(queue.queue.webhooks.take()).toEqual([webhook]);
  });

  it('are written for jobs that name one, and for no others', () => {
    expect(settled(['https://a.test/1']).queue.webhooks.take()).toHaveLength(1);
    const none = new QueueHarness(settings);
    none.queue.do('cancel', none.job(), 'cancelled', null);
    none.advance(1);
    expect(none.queue.webhooks.take()).toEqual([]);
  });

  it('go to each host eight at a time, to one that fails one at a time, and to others all the same', () => {
    const queue = settled([...Array(12).fill('https://a.test/'), 'https://b.test/']);
    const { webhooks } = queue.queue;
    const first = webhooks.take();
    expect(hosts(first)).toEqual([...Array(8).fill('a.test'), 'b.test']);
    expect(webhooks.take()).toEqual([]);
    for (const webhook of first.slice(0, 8)) webhooks.failed(webhook, 'it answered 500');
    expect(hosts(webhooks.take())).toEqual(['a.test']);
    expect(webhooks.take()).toEqual([]);
    webhooks.done(first[8]!);
  });

  it('are tried again for hours, ever more rarely, and then given up', () => {
    const queue = settled(['https://a.test/']);
    const { webhooks } = queue.queue;
    const ids = new Set<string>();
    const startedMs = queue.nowMs;
    for (let tries = 0; ; tries += 1) {
      let [webhook] = webhooks.take();
      for (let hours = 0; !webhook && hours < 10 * 60; hours += 1) {
        queue.advance(60);
        [webhook] = webhooks.take();
      }
      if (!webhook) break;
      expect(webhook.tries).toBe(tries);
      ids.add(webhook.id);
      webhooks.failed(webhook, 'it answered 500');
    }
    expect(ids.size).toBe(1);
    expect(queue.nowMs - startedMs).toBeGreaterThan(12 * 3_600_000);
    expect(queue.logLines.at(-1)).toMatchObject({ message: 'webhook given up', fields: { tries: 10 } });
    expect(queue.database.prepare('SELECT count(*) AS n FROM webhooks').get()).toEqual({ n: 0 });
  });

  it('wake the queue when they are due', () => {
    const queue = settled(['https://a.test/']);
    queue.advance(3600);
    const [webhook] = queue.queue.webhooks.take();
    queue.queue.webhooks.failed(webhook!, 'it answered 500');
    expect(queue.alarmAt! - queue.nowMs).toBeLessThanOrEqual(6000);
  });

  it('are rejected at submission where the host is not allowed', () => {
    const queue = new QueueHarness(settings);
    expect(queue.submit({ webhook: 'https://c.test/' })).toMatchObject([
      { ok: false, reason: 'invalid_webhook' },
    ]);
    expect(new QueueHarness().submit({ webhook: 'https://a.test/' })).toMatchObject([
      { ok: false, message: expect.stringContaining('QUEUE_WEBHOOK_HOSTS') },
    ]);
  });
});

describe('the body for a job in RunPod’s form', () => {
  function ended(job: object, result: object | null) {
    const queue = new QueueHarness(settings);
    const worker = queue.worker('w');
    const id = queue.job({ job_type: 'runpod', payload: '{"input":{}}', webhook: 'https://a.test/', ...job });
    const { fence_token } = worker.lastJob();
    const end = result
      ? { type: 'job_result', result }
      : { type: 'job_error', error: 'it broke', code: 'engine_refused', retryable: false };
    queue.say(worker, { ...end, job_id: id, fence_token });
    return { id, body: JSON.parse(queue.queue.read('webhookBody', id)!) };
  }

  it('is the job as RunPod shows it', () => {
    const { id, body } = ended({}, { status: 'success', output: ['a', 'b'] });
    expect(body).toEqual({
      ...{
        id,
        status: 'COMPLETED',
        output: ['a', 'b'],
        workerId: 'w',
        retries: 0,
        delayTime: 0,
        executionTime: 0,
      },
    });
    expect(ended({}, null).body).toMatchObject({ status: 'FAILED', error: 'it broke' });
  });

  it('tells where a long output is', () => {
    const queue = new QueueHarness(settings);
    const worker = queue.worker('w');
    const id = queue.job({ job_type: 'runpod', payload: '{"input":{}}', webhook: 'https://a.test/' });
    const { fence_token, result_upload_url } = worker.lastJob();
    queue.queue.do('storeResult', ticketOf(result_upload_url), 'a file');
    queue.say(worker, { type: 'job_result_ref', job_id: id, fence_token });
    const body = JSON.parse(queue.queue.read('webhookBody', id)!);
    expect(body).not.toHaveProperty('output');
    expect(body.output_url).toBe(`/v2/cfg/status/${id}?queue_id=q`);
  });

  it('is that of all jobs where the queue’s own webhook hears of it', () => {
    expect(ended({ webhook: undefined }, { output: [] }).body).toMatchObject({ type: 'job.succeeded' });
  });
});
