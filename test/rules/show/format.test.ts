import { describe, expect, it } from 'vitest';
import * as format from '../../../src/show/format.ts';

describe('formats of the page', () => {
  it.each([
    [0, '0 ms'],
    [0.4, '0 ms'],
    [850, '850 ms'],
    [999.7, '1.0 s'],
    [4200, '4.2 s'],
    [9949, '9.9 s'],
    [9960, '10 s'],
    [65_000, '1 min 05 s'],
    [725_000, '12 min'],
    [3_599_600, '1 h 00 min'],
    [11_520_000, '3 h 12 min'],
    [187_200_000, '2 d 4 h'],
    [-5, '0 ms'],
    [null, '–'],
    [Number.NaN, '–'],
  ])('tell how long something took: %d ms is %s', (ms, text) => {
    expect(format.duration(ms)).toBe(text);
  });

  it.each([
    [400, '0 s'],
    [4900, '4 s'],
    [65_000, '1 min 05 s'],
    [undefined, '–'],
  ])('tell ages in whole seconds: %s ms is %s', (ms, text) => {
    expect(format.age(ms)).toBe(text);
  });

  it.each([
    [0, 60, '0/s'],
    [186, 60, '3.1/s'],
    [1_500_000, 60, '25.0 k/s'],
    [4, 60, '4/min'],
    [2, 3600, '2/h'],
    [1, 86_400, '1/h'],
    [null, 60, '–'],
  ])('tell how often something comes: %s in %d s is %s', (counted, seconds, text) => {
    expect(format.rate(counted, seconds)).toBe(text);
  });

  it('tell rates of tokens, and percentiles with how many they are of', () => {
    expect(format.perSecond(3400)).toBe('3.4 k/s');
    expect(format.perSecond(null)).toBe('–');
    expect(format.tokenRate(3400)).toBe('3.4 k tokens/s');
    expect(format.tokenRate(null)).toBe('– tokens/s');
    expect(format.percentile(1200, 20)).toBe('1.2 s, n 20');
    expect(format.percentile(340, 12_400)).toBe('340 ms, n 12.4 k');
    expect(format.percentile(null, null)).toBe('–');
  });

  it.each([
    [0, '0'],
    [0.002, '0'],
    [0.42, '0.42'],
    [9.5, '9.5'],
    [312, '312'],
    [999.7, '1.0 k'],
    [12_400, '12.4 k'],
    [1_200_000, '1.2 M'],
    [2.5e9, '2.5 G'],
    [null, '–'],
  ])('give amounts three figures at most: %d is %s', (value, text) => {
    expect(format.amount(value)).toBe(text);
  });

  it.each([
    [0, '0 %'],
    [0.004, '<1 %'],
    [0.713, '71 %'],
    [0.9999, '99 %'],
    [1, '100 %'],
    [null, '–'],
  ])('claim neither nothing nor all before it is so: %d is %s', (share, text) => {
    expect(format.percent(share)).toBe(text);
  });

  it('count bytes in powers of ten', () => {
    expect(format.bytes(0)).toBe('0 B');
    expect(format.bytes(123_456)).toBe('123 kB');
    expect(format.memory(61.3e9, 80e9)).toBe('61/80 GB');
    expect(format.memory(undefined, 80e9)).toBe('–/80 GB');
    expect(format.memory(null, null)).toBe('–');
  });

  it('show times in the zone asked for, the day where it is not today', () => {
    const at = Date.UTC(2026, 10, 21, 14, 2, 11);
    expect(format.exactTime(at, 'UTC', at)).toBe('14:02:11 UTC');
    expect(format.exactTime(at, 'UTC', at + 86_400_000)).toBe('2026-11-21 14:02:11 UTC');
    expect(format.exactTime(at, 'Europe/Berlin', at)).toMatch(/^15:02:11 /);
  });

  it.each([
    ['no worker is known here', 'No worker is known here.'],
    ['job a-1 has ended: submit under a new id', 'Job a-1 has ended: submit under a new id.'],
    ['No job has the id "x".', 'No job has the id "x".'],
    ['name a model, there are several: "a", "b"', 'Name a model, there are several: "a", "b".'],
    ['payload.path: expected a path', 'payload.path: expected a path.'],
    ['gpu-1 is not known', 'gpu-1 is not known.'],
    ['', ''],
  ])('write the refusal %j as a sentence', (text, sentence) => {
    expect(format.asSentence(text)).toBe(sentence);
  });

  it('write prices, ids and plurals', () => {
    expect(format.price(1.837)).toBe('$1.84/h');
    expect(format.shortId('0192f1c8-77aa-7d1e')).toBe('0192f1c8-77a…');
    expect(format.shortId('job-123')).toBe('job-123');
    // Every id of a job in this queue begins with these nine characters.
    expect(format.shortId('job_1RjCC0192f1c8-77aa-7d1e-8abc-0123456789ab')).toBe('…0192f1c8-77a…');
    // The jobs of a batch differ by their lines alone.
    expect(format.shortId('batch_1RjCCLcMZbkUziTV35Esf6DRyep6P.417')).toBe('…LcMZbkUz….417');
    expect(format.plural(1, 'worker')).toBe('1 worker');
    expect(format.plural(1200, 'worker')).toBe('1,200 workers');
  });
});
