import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { ToldNews } from '../../../src/features/alerts/receivers/outgoing.ts';
import { outgoingOf, withoutSecrets } from '../../../src/features/alerts/receivers/receivers.ts';
import { type AlertReceiver, parseAlertReceivers } from '../../../src/settings/alert-receivers.ts';

/** The form in which each kind of receiver is told. */

const NOW = Date.UTC(2026, 0, 1, 12);
const KEY = Buffer.alloc(32, 7);
const CAME: ToldNews = {
  what: 'came',
  problem: {
    id: 'worker_error/vast-17',
    code: 'worker_error',
    severity: 'error',
    config_id: 'llama-8b',
    worker_id: 'vast-17',
    text: 'vast-17 failed: out of memory.',
    advice: 'Lower MAX_MODEL_LEN.',
  },
  came_at: NOW - 60_000,
  over_at: null,
  before: null,
};
const OVER: ToldNews = {
  ...CAME,
  what: 'over',
  over_at: NOW - 15_000,
  before: { at: NOW - 45_000, severity: 'warning' },
};
const receiver = (given: object): AlertReceiver =>
  parseAlertReceivers(JSON.stringify([{ name: 'r', ...given }]))[0]!;

async function sent(given: object, news: ToldNews[]) {
  const all = await outgoingOf(receiver(given), news, { queueId: 'team-a', prefix: 'team-a: ', now: NOW });
  return all.map((one) => ('body' in one ? { ...one, body: JSON.parse(one.body) } : one)) as unknown as {
    url: string;
    body: never;
    headers?: Record<string, string>;
    mail: { subject: string; text: string };
  }[];
}

describe('what a receiver is told', () => {
  it('is an event for each problem at PagerDuty, joined by the key of the problem', async () => {
    const pagerduty = { kind: 'pagerduty', routing_key: 'k'.repeat(32) };
    const [trigger, resolve] = await sent(pagerduty, [CAME, OVER]);
    expect(trigger?.url).toBe('https://events.pagerduty.com/v2/enqueue');
    expect(trigger?.body).toEqual({
      routing_key: 'k'.repeat(32),
      event_action: 'trigger',
      dedup_key: 'worker-vllm/team-a/worker_error/vast-17',
      client: 'worker-vllm',
      payload: {
        summary: 'team-a: vast-17 failed: out of memory.',
        source: 'vast-17',
        severity: 'error',
        timestamp: '2026-01-01T11:59:00.000Z',
        class: 'worker_error',
        component: 'vast-17',
        group: 'llama-8b',
        custom_details: {
          advice: 'Lower MAX_MODEL_LEN.',
          queue_id: 'team-a',
          config_id: 'llama-8b',
          worker_id: 'vast-17',
        },
      },
    });
    expect(resolve?.body).toEqual({
      routing_key: 'k'.repeat(32),
      event_action: 'resolve',
      dedup_key: 'worker-vllm/team-a/worker_error/vast-17',
    });
    const long = { ...CAME, problem: { ...CAME.problem, id: 'x'.repeat(300), text: 'y'.repeat(2000) } };
    const [{ body } = { body: {} }] = await sent(pagerduty, [long]);
    expect(body).toMatchObject({
      dedup_key: expect.stringMatching(/^worker-vllm\/[0-9a-f]{64}$/),
      payload: { summary: expect.stringMatching(/^.{1024}$/) },
    });
  });

  it('is one post of all to Alertmanager, with the labels that it was told before for an end', async () => {
    const given = { kind: 'alertmanager', url: 'http://manager:9093/', authorization: 'Basic abc' };
    const all = await sent(given, [CAME, OVER]);
    expect(all).toHaveLength(1);
    expect(all[0]).toMatchObject({
      url: 'http://manager:9093/api/v2/alerts',
      headers: { authorization: 'Basic abc' },
    });
    const labels = {
      alertname: 'worker_vllm_worker_error',
      severity: 'error',
      queue_id: 'team-a',
      problem: 'worker_error/vast-17',
      config_id: 'llama-8b',
      worker_id: 'vast-17',
    };
    const annotations = { summary: 'vast-17 failed: out of memory.', description: 'Lower MAX_MODEL_LEN.' };
    const startsAt = '2026-01-01T11:59:00.000Z';
    expect(all[0]?.body).toEqual([
      { labels, annotations, startsAt, endsAt: '2026-01-01T12:04:00.000Z' },
      {
        labels: { ...labels, severity: 'warning' },
        annotations,
        startsAt,
        endsAt: '2026-01-01T11:59:45.000Z',
      },
    ]);
  });

  it('ends the alert of the severity before at Alertmanager, where the labels are another alert', async () => {
    const given = { kind: 'alertmanager', url: 'http://manager:9093' };
    const worse: ToldNews = { ...CAME, what: 'worse', before: { at: NOW - 45_000, severity: 'warning' } };
    const [{ body } = { body: [] }] = await sent(given, [worse]);
    expect(body).toMatchObject([
      { labels: { severity: 'error' }, endsAt: '2026-01-01T12:04:00.000Z' },
      { labels: { severity: 'warning' }, endsAt: '2026-01-01T12:00:00.000Z' },
    ]);
  });

  it('is a signed post for each problem to a webhook, with the same id when it is tried again', async () => {
    const given = { kind: 'webhook', url: 'http://receiver/', secret: `whsec_${KEY.toString('base64')}` };
    const [came, over] = await sent(given, [CAME, OVER]);
    const [again] = await sent(given, [CAME]);
    expect(came?.body).toEqual({
      type: 'alert.firing',
      timestamp: '2026-01-01T12:00:00.000Z',
      data: {
        id: 'worker_error/vast-17',
        kind: 'worker_error',
        severity: 'error',
        queue_id: 'team-a',
        config_id: 'llama-8b',
        worker_id: 'vast-17',
        text: 'vast-17 failed: out of memory.',
        advice: 'Lower MAX_MODEL_LEN.',
        started_at: '2026-01-01T11:59:00.000Z',
        ended_at: null,
      },
    });
    expect(over?.body).toMatchObject({
      type: 'alert.resolved',
      data: { ended_at: '2026-01-01T11:59:45.000Z' },
    });
    const { 'webhook-id': id, 'webhook-timestamp': at, 'webhook-signature': signature } = came?.headers ?? {};
    const signed = createHmac('sha256', KEY).update(`${id}.${at}.${JSON.stringify(came?.body)}`);
    expect(signature).toBe(`v1,${signed.digest('base64')}`);
    expect(again?.headers?.['webhook-id']).toBe(id);
    expect(over?.headers?.['webhook-id']).not.toBe(id);
  });

  it('is one mail of all, with the first in its subject', async () => {
    const given = {
      kind: 'email',
      server: 'smtp://mail',
      from: 'queue@example.com',
      to: ['ops@example.com'],
    };
    const broken = { ...CAME, problem: { ...CAME.problem, text: 'broken\r\nBcc: all@example.com' } };
    const [{ mail } = { mail: null }] = await sent(given, [broken, OVER]);
    expect(mail?.subject).toBe(
      '[worker-vllm] team-a: Error: broken Bcc: all@example.com Lower MAX_MODEL_LEN. (and 1 more)',
    );
    expect(mail?.text).toContain('team-a: Over after 45 s: vast-17 failed: out of memory.');
  });
});

describe('QUEUE_ALERTS', () => {
  const url = 'https://receiver.example/hush';
  it.each([
    [
      'alerts.json',
      'expected a JSON array of receivers, or the path of a file, which begins with "/" or "."',
    ],
    ['[{"name": "a",\n "url": "hush",}]', /has a fault: Expected .* \(line 2 column 16\)$/],
    ['[{"url": "hush"},]', /has a fault: Unexpected token '\]'$/],
    ['{}', 'expected a JSON array of receivers'],
    [
      [
        { name: 'a', kind: 'slack', url },
        { name: 'a', kind: 'slack', url },
      ],
      'the name "a" is there twice',
    ],
    [[{ kind: 'slack', url }], 'receiver number 1: name is missing'],
    [[{ name: 'a', kind: 'sms', url }], 'receiver "a": kind expected slack, pagerduty,'],
    [[{ name: 'a', kind: 'slack' }], 'receiver "a": url is missing'],
    [
      [{ name: 'a', kind: 'slack', url: 'htps://hush' }],
      'receiver "a": url expected an https:// or http:// URL',
    ],
    [[{ name: 'a', kind: 'slack', url, repeat: '1h' }], 'receiver "a": "repeat" is not known here'],
    [
      [{ name: 'a', kind: 'slack', url, repeat_after: '1s' }],
      'receiver "a": repeat_after expected a duration of 60s',
    ],
    [[{ name: 'a', kind: 'slack', url, kinds: ['unknown_model'] }], 'receiver "a": kinds.0'],
    [[{ name: 'a', kind: 'webhook', url, secret: 'hush' }], 'receiver "a": secret expected "whsec_"'],
    [
      [{ name: 'a', kind: 'pagerduty', routing_key: 'hush' }],
      'receiver "a": routing_key expected the integration key',
    ],
    [
      [{ name: 'a', kind: 'email', server: 'mail:25', from: 'x', to: [] }],
      'receiver "a": server expected smtp://host:port or smtps://host:port, with user:password@ before the host; from expected an e-mail address; to',
    ],
  ])('refuses %j: %s', (given, text) => {
    const read = () => parseAlertReceivers(typeof given === 'string' ? given : JSON.stringify(given));
    expect(read).toThrow(text);
    expect(read).not.toThrow(/hush/);
  });

  it('hides in an error what is secret of a receiver', () => {
    const mail = receiver({
      kind: 'email',
      server: 'smtp://me:pa%24s@mail.example:25',
      from: 'a@example.com',
      to: ['b@example.com'],
    });
    expect(withoutSecrets(mail, 'mail.example refused me with pa$s')).toBe(
      'mail.example refused (secret) with (secret)',
    );
    const slack = receiver({ kind: 'slack', url: 'https://hooks.example/services/T0/hush' });
    expect(withoutSecrets(slack, 'fetch of https://hooks.example/services/T0/hush failed')).not.toContain(
      'hush',
    );
  });
});
