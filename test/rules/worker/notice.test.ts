import { describe, expect, it } from 'vitest';
import {
  awsNotice,
  azureNotice,
  fileNotice,
  googleNotice,
  graceMsOf,
} from '../../../src/worker/notices/notice.ts';

const NOW = Date.parse('2026-11-28T12:00:00Z');
const LATER = NOW + 120_000;

describe('a notice', () => {
  it('of AWS names the time of the action', () => {
    const text = '{"action": "terminate", "time": "2026-11-28T12:02:00Z"}';
    expect(awsNotice(text)).toEqual({ from: 'AWS', endsAtMs: LATER });
    expect(awsNotice('{"action": "hibernate"}')).toEqual({ from: 'AWS', endsAtMs: null });
  });

  it('of AWS is not read out of the answer of something else', () => {
    for (const text of ['', 'null', '[]', '<html>', '{"error": "not found"}', '7']) {
      expect(awsNotice(text)).toBeNull();
    }
  });

  it('of Google Cloud leaves 30 s', () => {
    expect(googleNotice('TRUE\n', NOW)).toEqual({ from: 'Google Cloud', endsAtMs: NOW + 30_000 });
    expect(googleNotice('FALSE', NOW)).toBeNull();
  });

  it('of Azure is for the machines that it names, and for the loss of a spot machine alone', () => {
    const event = {
      EventId: 'e1',
      EventType: 'Preempt',
      ResourceType: 'VirtualMachine',
      Resources: ['gpu_1', 'gpu_2'],
      EventStatus: 'Scheduled',
      NotBefore: 'Sat, 28 Nov 2026 12:02:00 GMT',
    };
    const of = (...events: unknown[]) => JSON.stringify({ DocumentIncarnation: 1, Events: events });
    const reboot = { ...event, EventId: 'e0', EventType: 'Reboot' };
    expect(azureNotice(of(reboot, event), 'gpu_2')).toEqual({
      from: 'Azure',
      endsAtMs: LATER,
      eventId: 'e1',
    });
    expect(azureNotice(of(event), 'gpu_3')).toBeNull();
    expect(azureNotice(of(reboot, null, 7, { EventType: 'Preempt' }), 'gpu_1')).toBeNull();
    expect(azureNotice(of({ ...event, NotBefore: '' }), 'gpu_1')).toMatchObject({ endsAtMs: null });
    for (const text of ['', 'null', '{}', '{"Events": 7}']) expect(azureNotice(text, 'gpu_1')).toBeNull();
  });

  it('of a file is seconds from when it was written, a time, or neither', () => {
    const endsAt = (text: string) => fileNotice('/notice', text, NOW).endsAtMs;
    expect(endsAt('120\n')).toBe(LATER);
    expect(endsAt('0.5')).toBe(NOW + 500);
    expect(endsAt(' 2026-11-28T12:02:00Z ')).toBe(LATER);
    for (const text of ['', '  ', 'soon', '-5', '9'.repeat(30)]) expect(endsAt(text)).toBeNull();
  });
});

describe('the grace after a notice', () => {
  const graceOf = (endsAtMs: number | null) => graceMsOf({ from: 'AWS', endsAtMs }, NOW, 5000);

  it('is what the notice leaves, less what the worker needs to end', () => {
    expect(graceOf(LATER)).toBe(117_500);
    expect(graceOf(NOW + 5000)).toBe(2500);
  });

  it('is none where too little is left', () => {
    expect(graceOf(NOW + 1000)).toBe(0);
    expect(graceOf(NOW - 60_000)).toBe(0);
  });

  it('is that of a signal where the notice names no time', () => {
    expect(graceOf(null)).toBe(5000);
  });
});
