import { describe, expect, it } from 'vitest';
import { isPrivateHost } from '../../../src/process/ip-addresses.ts';
import {
  webhookKey,
  webhookProblem,
  webhookReach,
  webhookSettingsProblem,
} from '../../../src/settings/webhooks.ts';

const HOSTS = 'hooks.example.com, *.example.org,private:receiver:9000,private:[::1],10.0.0.5:8443';

describe('hosts of webhooks', () => {
  it.each([
    ['https://hooks.example.com/a?b=c', 'public'],
    ['https://HOOKS.example.com:444/', 'public'],
    ['http://hooks.example.com/', null],
    ['https://hooks.example.com.evil.test/', null],
    ['https://a.b.example.org/', 'public'],
    ['https://example.org/', null],
    ['https://evilexample.org/', null],
    ['http://receiver:9000/', 'private'],
    ['https://receiver:9000/', 'private'],
    ['http://receiver:9001/', null],
    ['http://[::1]/', 'private'],
    ['https://10.0.0.5:8443/', 'public'],
    ['https://[::ffff:10.0.0.5]:8443/', null],
  ])('%s: %s', (url, reach) => {
    expect(webhookReach(new URL(url), HOSTS)).toBe(reach);
    expect(webhookProblem(url, HOSTS) === null).toBe(reach !== null);
  });

  it('are none where none is allowed', () => {
    expect(webhookProblem('https://hooks.example.com/', '')).toContain('QUEUE_WEBHOOK_HOSTS');
    expect(webhookProblem('https:///', HOSTS)).not.toBeNull();
  });
});

describe('the settings of webhooks', () => {
  const secret = `whsec_${Buffer.alloc(32).toString('base64')}`;

  it('have a key of 24 to 64 bytes', () => {
    expect(webhookKey(secret)).toHaveLength(32);
    expect(webhookKey(`whsec_${Buffer.alloc(16).toString('base64')}`)).toBeNull();
    expect(webhookKey('secret')).toBeNull();
  });

  it('go together', () => {
    expect(webhookSettingsProblem({ hosts: '', secret: '' })).toBeNull();
    expect(webhookSettingsProblem({ hosts: 'a.test', secret })).toBeNull();
    expect(webhookSettingsProblem({ hosts: 'a.test', secret: '' })).toContain('QUEUE_WEBHOOK_SECRET');
    expect(webhookSettingsProblem({ hosts: 'a.test', secret: 'x' })).toContain('whsec_');
    expect(webhookSettingsProblem({ hosts: 'a.test', secret, url: 'https://a.test/x' })).toBeNull();
    const of = (hosts: string) => webhookSettingsProblem({ hosts, secret }, isPrivateHost);
    expect(of('a.test, *.b.test, private:10.0.0.5, private:localhost:9000')).toBeNull();
    expect(of('a.test, 10.0.0.5')).toBe(
      'QUEUE_WEBHOOK_HOSTS: 10.0.0.5 is a private address: write "private:10.0.0.5" to allow it.',
    );
    expect(of('[fd00::1]:9000')).toContain('"private:[fd00::1]:9000"');
    expect(webhookSettingsProblem({ hosts: 'a.test', secret, url: 'https://b.test/x' })).toContain(
      'QUEUE_WEBHOOK_URL: b.test',
    );
    expect(webhookSettingsProblem({ hosts: '', secret: '', url: 'https://b.test/x' })).toContain(
      'QUEUE_WEBHOOK_URL needs QUEUE_WEBHOOK_HOSTS',
    );
  });
});
