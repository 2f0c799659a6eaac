import { expect, it } from 'vitest';
import { StoredAlarm } from '../../../src/host/cloudflare/stored-alarm.ts';

/** The alarm of one object as workerd 1.20261117.1 keeps it, and the clock that its handler reads. */
class Runtime {
  nowMs = 1_000_000;
  readonly storage = {
    getAlarm: async () => this.#at,
    setAlarm: async (at: number) => this.#set(Math.max(Math.floor(at), this.nowMs)),
    deleteAlarm: async () => this.#set(null),
  };
  #at: number | null = null;
  /** What fires: what is stored, unless that is the very ms for which a handler runs. */
  #planned: number | null = null;
  #firing: number | null = null;

  #set(at: number | null): void {
    this.#at = at;
    this.#planned = at === this.#firing ? null : at;
  }

  /** The alarm fires on time. @returns whether there was one */
  async fire(alarm: StoredAlarm, handler: () => void = () => {}): Promise<boolean> {
    const at = this.#planned;
    if (at === null) return false;
    this.nowMs = Math.max(this.nowMs, at);
    this.#firing = at;
    this.#planned = null;
    await alarm.fires(this.nowMs, handler);
    this.#firing = null;
    return true;
  }
}

it('fires when it is due, never in the ms before', async () => {
  const runtime = new Runtime();
  const alarm = await StoredAlarm.read(runtime.storage);
  const dueAt = runtime.nowMs + 4666.67;
  alarm.set(dueAt);
  expect(await runtime.fire(alarm)).toBe(true);
  expect(runtime.nowMs).toBeGreaterThanOrEqual(dueAt);
  expect(runtime.nowMs - dueAt).toBeLessThan(1);
});

it('fires again when its handler sets it for the time at which it fired', async () => {
  const runtime = new Runtime();
  const alarm = await StoredAlarm.read(runtime.storage);
  const at = runtime.nowMs + 5000;
  alarm.set(at);
  await runtime.fire(alarm, () => {
    alarm.clear();
    // More was due at once than one alarm takes.
    alarm.set(at);
  });
  expect(await runtime.fire(alarm)).toBe(true);
});

it('fires again when its handler sets it for a time before that at which it fired', async () => {
  const runtime = new Runtime();
  const alarm = await StoredAlarm.read(runtime.storage);
  const at = runtime.nowMs + 5000;
  alarm.set(at);
  await runtime.fire(alarm, () => alarm.set(at - 3));
  expect(await runtime.fire(alarm)).toBe(true);
});

it('is set for an earlier time than that at which it fired, for a clock that was set back', async () => {
  const runtime = new Runtime();
  const alarm = await StoredAlarm.read(runtime.storage);
  const before = runtime.nowMs;
  alarm.set(before + 3600_000);
  await runtime.fire(alarm);
  runtime.nowMs = before;
  alarm.set(before + 5000);
  expect(await runtime.storage.getAlarm()).toBe(before + 5000);
});
