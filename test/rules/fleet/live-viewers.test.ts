import { describe, expect, it } from 'vitest';
import {
  LiveViewers,
  type OpenedWith,
  type ViewerSocket,
  type Watching,
} from '../../../src/fleet/live-viewers.ts';
import type { FleetFrame } from '../../../src/protocol/index.ts';
import { FleetHarness } from '../../support/fleet-harness.ts';
import { settled } from '../../support/virtual-clock.ts';

/** A viewer without a network. */
class Viewer implements ViewerSocket {
  readonly texts: string[] = [];
  closed: number | null = null;
  pinged = 0;
  #watching!: Watching;
  load = () => this.#watching;
  save = (watching: Watching) => {
    this.#watching = structuredClone(watching);
  };
  pingedAt = () => this.pinged;
  send = (text: string) => void this.texts.push(text);
  close = (code: number) => {
    this.closed = code;
  };
  get frames(): FleetFrame[] {
    return this.texts.map((text) => JSON.parse(text) as FleetFrame);
  }
}

/** Viewers of a fleet, and a clock that runs what they planned. */
class Theatre {
  readonly fleet = new FleetHarness();
  readonly sockets: Viewer[] = [];
  planned: { at: number; run: () => void }[] = [];
  signedIn = true;
  alarmAt: number | null = null;
  readonly alarm = {
    get: () => this.alarmAt,
    set: (at: number) => {
      this.alarmAt = at;
    },
    clear: () => {
      this.alarmAt = null;
    },
  };
  viewers = this.#viewers();

  open(openedWith: OpenedWith = {}): Viewer {
    const viewer = new Viewer();
    this.sockets.push(viewer);
    this.viewers.opened(viewer, openedWith);
    return viewer;
  }

  watch(viewer: Viewer, known: object = {}): void {
    this.viewers.onMessage(viewer, JSON.stringify({ type: 'watch', ...known }));
  }

  beat(tokens_per_second: number): void {
    this.fleet.heartbeat('w', { tokens_per_second });
    this.viewers.changed();
  }

  /** @param awake those whose pings come */
  advance(seconds: number, awake: Viewer[] = this.sockets): void {
    const end = this.fleet.nowMs + seconds * 1000;
    while (true) {
      const next = this.planned.filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0];
      const at = Math.max(this.fleet.nowMs, Math.min(next?.at ?? end, this.fleet.nowMs + 1000, end));
      this.fleet.advance((at - this.fleet.nowMs) / 1000);
      for (const viewer of awake) viewer.pinged = at;
      if (next && next.at <= at) {
        this.planned = this.planned.filter((one) => one !== next);
        next.run();
      } else if (at === end) return;
    }
  }

  /** The object starts anew; the sockets stay. */
  restart(): void {
    this.fleet.rules.save();
    this.fleet.restart();
    this.planned = [];
    this.viewers = this.#viewers();
  }

  #viewers(): LiveViewers {
    return new LiveViewers({
      sockets: () => this.sockets.filter(({ closed }) => closed === null),
      view: this.fleet.rules.view,
      now: () => this.fleet.nowMs,
      alarm: this.alarm,
      isSignedIn: async () => this.signedIn,
      after: (ms, run) => void this.planned.push({ at: this.fleet.nowMs + ms, run }),
      background: () => {},
    });
  }
}

describe('viewers of the fleet', () => {
  it('are sent nothing before they ask, then everything, then only what changed', () => {
    const theatre = new Theatre();
    const viewer = theatre.open();
    theatre.beat(1);
    theatre.fleet.heartbeat('other');
    theatre.advance(5);
    expect(viewer.texts).toEqual([]);
    theatre.watch(viewer);
    theatre.advance(5);
    expect(viewer.frames).toMatchObject([{ type: 'full', view: { workers: [{}, {}] } }]);
    theatre.beat(2);
    expect(viewer.frames.slice(1)).toMatchObject([
      { type: 'changed', workers: [{ worker_id: 'w', tokens_per_second: 2 }], gone: { workers: [] } },
    ]);
  });

  it('get one frame a second at most, with the newest state', () => {
    const theatre = new Theatre();
    const viewer = theatre.open();
    theatre.watch(viewer);
    for (let n = 1; n <= 100; n++) {
      theatre.beat(n);
      theatre.advance(0.1);
    }
    expect(viewer.frames.length).toBeGreaterThanOrEqual(10);
    expect(viewer.frames.length).toBeLessThanOrEqual(11);
    theatre.advance(1);
    expect(viewer.frames.at(-1)).toMatchObject({ workers: [{ tokens_per_second: 100 }] });
    theatre.watch(viewer);
    theatre.watch(viewer);
    theatre.watch(viewer);
    const before = viewer.frames.length;
    theatre.advance(0.5);
    expect(viewer.frames.length - before).toBeLessThanOrEqual(1);
  });

  it('are closed when they are signed out, at once or when that is noticed, and sent nothing after that', async () => {
    const theatre = new Theatre();
    const [leaving, elsewhere, staying] = [{ signIn: 'a' }, { signIn: 'b' }, {}].map((opened) =>
      theatre.open(opened),
    ) as [Viewer, Viewer, Viewer];
    for (const viewer of [leaving, elsewhere, staying]) theatre.watch(viewer);
    theatre.viewers.signedOut('a');
    expect([leaving, elsewhere, staying].map(({ closed }) => closed)).toEqual([1008, null, null]);
    theatre.beat(1);
    theatre.advance(11);
    await settled();
    theatre.beat(2);
    theatre.advance(2);
    expect(elsewhere.frames.at(-1)).toMatchObject({ workers: [{ tokens_per_second: 2 }] });
    // Signed out of another queue's page.
    theatre.signedIn = false;
    theatre.advance(10);
    const before = elsewhere.frames.length;
    theatre.beat(3);
    theatre.advance(2);
    await settled();
    expect([elsewhere.closed, staying.closed]).toEqual([1008, null]);
    expect(elsewhere.frames).toHaveLength(before);
  });

  it('see a worker fall silent, though nothing comes', () => {
    const theatre = new Theatre();
    const viewer = theatre.open();
    theatre.fleet.heartbeat('w', { interval_seconds: 10 });
    theatre.watch(viewer);
    const states = () =>
      viewer.frames.flatMap((frame) =>
        (frame.type === 'full' ? frame.view.workers : frame.workers).map(({ state }) => state),
      );
    theatre.advance(31);
    expect(states()).toEqual(['starting', 'late', 'lost']);
  });

  it('of the same version are sent the same text, which is made once', () => {
    const theatre = new Theatre();
    const [a, b, c] = [theatre.open(), theatre.open(), theatre.open()];
    theatre.beat(1);
    for (const viewer of [a, b, c]) theatre.watch(viewer);
    theatre.advance(2);
    const known = (a.frames[0] as { view: { version: number } }).view;
    theatre.viewers.onMessage(c, '{"type":"pause"}');
    theatre.beat(2);
    theatre.advance(2);
    theatre.watch(c, known);
    expect(c.texts.at(-1)).toBe(a.texts.at(-1)?.replace(/"at":\d+/, `"at":${theatre.fleet.nowMs}`));
    expect(b.texts).toEqual(a.texts);
  });

  it('that fall silent are sent nothing more, and then the newest state at once', () => {
    const theatre = new Theatre();
    const [slow, quick] = [theatre.open(), theatre.open()];
    for (const viewer of [slow, quick]) theatre.watch(viewer);
    for (let n = 0; n < 60; n++) {
      theatre.beat(n);
      theatre.advance(1, [quick]);
    }
    expect(slow.frames.length).toBeLessThan(33);
    expect(quick.frames.length).toBeGreaterThan(58);
    const before = slow.frames.length;
    theatre.beat(1000);
    theatre.advance(2);
    expect(slow.frames.slice(before)).toMatchObject([
      { type: 'changed', workers: [{ tokens_per_second: 1000 }] },
    ]);
    theatre.advance(301, [quick]);
    expect([slow.closed, quick.closed]).toEqual([1001, null]);
  });

  it('that are paused, or gone, leave the object asleep', () => {
    const theatre = new Theatre();
    const viewer = theatre.open();
    theatre.watch(viewer);
    theatre.advance(3);
    expect(theatre.planned).toHaveLength(1);
    theatre.viewers.onMessage(viewer, '{"type":"pause"}');
    theatre.beat(1);
    theatre.advance(3);
    expect(theatre.planned).toHaveLength(0);
  });

  it('are sent everything again after the object has restarted', () => {
    const theatre = new Theatre();
    const viewer = theatre.open();
    theatre.beat(1);
    theatre.watch(viewer);
    theatre.restart();
    theatre.advance(2);
    theatre.beat(2);
    expect(viewer.frames.map(({ type }) => type)).toEqual(['full', 'full']);
    const epochs = viewer.frames.map((frame) => frame.type === 'full' && frame.view.epoch);
    expect(epochs[0]).not.toBe(epochs[1]);
  });

  it('that come back with the newest version are told that it still is, once', () => {
    const theatre = new Theatre();
    const first = theatre.open();
    theatre.watch(first);
    theatre.advance(2);
    const { view } = first.frames.at(-1) as FleetFrame & { type: 'full' };
    first.closed = 1006;
    const again = theatre.open();
    theatre.watch(again, { epoch: view.epoch, version: view.version });
    theatre.advance(5);
    expect(again.frames).toMatchObject([{ type: 'changed', version: view.version, workers: [] }]);
  });

  it('hear of rows that went, and one that knows too little gets everything', () => {
    const theatre = new Theatre();
    const [viewer, old] = [theatre.open(), theatre.open()];
    theatre.fleet.heartbeat('ended', { status: 'stopping' });
    theatre.watch(viewer);
    theatre.watch(old);
    theatre.viewers.onMessage(old, '{"type":"pause"}');
    theatre.advance(1);
    theatre.fleet.advance(3600);
    theatre.advance(1);
    expect(viewer.frames.at(-1)).toMatchObject({ type: 'changed', gone: { workers: ['ended'] } });
    for (let n = 0; n < 1001; n++) theatre.fleet.heartbeat(`more-${n}`, { status: 'stopping' });
    theatre.advance(1);
    theatre.fleet.advance(3601);
    theatre.advance(1);
    theatre.watch(old, (old.frames[0] as { view: object }).view);
    expect(old.frames.at(-1)?.type).toBe('full');
  });
});

describe('the token of a viewer', () => {
  it('closes its sockets when it has changed, and no others', () => {
    const theatre = new Theatre();
    const [mine, theirs, nobodys] = [
      theatre.open({ token: { sha256: 'mine' } }),
      theatre.open({ token: { sha256: 'theirs' } }),
      theatre.open(),
    ];
    theatre.viewers.tokensChanged(['mine', 'another']);
    expect([mine.closed, theirs.closed, nobodys.closed]).toEqual([1012, null, null]);
  });

  it('closes them when it expires, whether or not they look', () => {
    const theatre = new Theatre();
    const now = theatre.fleet.nowMs;
    const early = theatre.open({ token: { sha256: 'a', expires_at: now + 5000 } });
    const late = theatre.open({ token: { sha256: 'b', expires_at: now + 9000 } });
    expect(theatre.alarmAt).toBe(now + 5000);
    theatre.advance(5);
    theatre.viewers.closeExpired();
    expect([early.closed, late.closed, theatre.alarmAt]).toEqual([1008, null, now + 9000]);
    theatre.advance(4);
    theatre.viewers.closeExpired();
    expect([late.closed, theatre.alarmAt]).toEqual([1008, null]);
  });
});
