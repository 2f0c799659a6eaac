import { describe, expect, it } from 'vitest';
import type { FailureKind } from '../../../src/engine/kinds/report.ts';
import { EXIT } from '../../../src/process/index.ts';
import { ENGINE_STOP_MS, WORKER_MARGIN_MS } from '../../../src/process/way-down.ts';
import { decide, RESTARTS_FORGIVEN_MS } from '../../../src/supervisor/decide.ts';
import {
  type Action,
  initialSituation,
  type Situation,
  type SupervisorEvent,
} from '../../../src/supervisor/situation.ts';

const GRACE_MS = 5000;
const MACHINE_FIT: SupervisorEvent = { event: 'machine_checked', problem: null, at: 0 };
const MACHINE_UNFIT: SupervisorEvent = { event: 'machine_checked', problem: 'a bad GPU', at: 0 };
const HEALTHY: SupervisorEvent = { event: 'engine_healthy', at: 0 };
const engineExited = (kind: FailureKind, at = 0): SupervisorEvent => ({
  event: 'engine_exited',
  message: 'it died: reason. Try this.',
  advice: 'Try this.',
  kind,
  lastLines: [],
  at,
});
const ENGINE_EXITED = engineExited('transient');
const LIMIT: SupervisorEvent = { event: 'limit_reached' };
const workerExited = (code: number): SupervisorEvent => ({ event: 'worker_exited', code });
const signal = (at: number, name = 'SIGTERM'): SupervisorEvent => ({ event: 'signal', name, at });

describe('the supervisor', () => {
  it('on a signal ends the worker first, then the engine, then itself with 0', () => {
    const story = tell(HEALTHY, signal(0), workerExited(0), ENGINE_EXITED);
    expect(story.deeds).toEqual([
      'worker SIGTERM',
      `limit ${GRACE_MS + WORKER_MARGIN_MS}`,
      'engine SIGTERM',
      `limit ${ENGINE_STOP_MS}`,
      'engine SIGKILL',
      'exit 0',
    ]);
    expect(story.states).toEqual(['running', 'draining', 'stopping_engine', 'stopped']);
  });

  it('cancels a start by SIGKILL, since a loading vLLM loses SIGTERM', () => {
    expect(tell(signal(0), workerExited(0)).deeds).toContain('engine SIGKILL');
    expect(tell(signal(0), workerExited(0)).deeds).not.toContain('engine SIGTERM');
  });

  it('takes a worker that our SIGTERM ended before it could listen for one that ended in order', () => {
    expect(tell(signal(0), workerExited(143), ENGINE_EXITED).exit).toBe(0);
    expect(tell(HEALTHY, workerExited(143), ENGINE_EXITED).exit).toBe(143);
  });

  it('lets the worker report when the engine fails to start, and kills what is left of the engine', () => {
    const story = tell(ENGINE_EXITED, workerExited(0));
    expect(story.deeds).toEqual([
      'engine SIGKILL',
      'tell engine_exited wasHealthy=false',
      'limit 20000',
      `exit ${EXIT.engineFailedToStart}`,
    ]);
  });

  it('ends with another code when the engine had been healthy', () => {
    expect(tell(HEALTHY, ENGINE_EXITED, workerExited(0)).exit).toBe(EXIT.engineDied);
  });

  it('kills a worker that does not report in time after the engine died', () => {
    const story = tell(HEALTHY, ENGINE_EXITED, LIMIT, workerExited(137));
    expect(story.deeds).toContain('worker SIGKILL');
    expect(story.exit).toBe(EXIT.engineDied);
  });

  it.each([0, 1, 2, 6])("makes the worker's code %i the container's once the engine has ended", (code) => {
    const story = tell(HEALTHY, workerExited(code), ENGINE_EXITED);
    expect(story.exit).toBe(code);
    expect(story.deeds[0]).toBe('engine SIGTERM');
  });

  it('kills the loading engine at once when the worker refuses its configuration', () => {
    const story = tell(workerExited(EXIT.configuration), ENGINE_EXITED);
    expect(story.deeds[0]).toBe('engine SIGKILL');
    expect(story.exit).toBe(EXIT.configuration);
  });

  it('kills an engine that ignores SIGTERM, and leaves one that even ignores that', () => {
    const story = tell(HEALTHY, signal(0), workerExited(0), LIMIT);
    expect(story.deeds.slice(-2)).toEqual(['engine SIGKILL', 'limit 1000']);
    expect(tell(HEALTHY, signal(0), workerExited(0), LIMIT, LIMIT).exit).toBe(0);
  });

  it('kills a worker that drains for too long, then stops the engine in order', () => {
    const story = tell(HEALTHY, signal(0), LIMIT, workerExited(137), ENGINE_EXITED);
    expect(story.deeds).toEqual([
      'worker SIGTERM',
      `limit ${GRACE_MS + WORKER_MARGIN_MS}`,
      'worker SIGKILL',
      'limit 1000',
      'engine SIGTERM',
      `limit ${ENGINE_STOP_MS}`,
      'engine SIGKILL',
      'exit 137',
    ]);
  });

  it('keeps the drain and its outcome when the engine dies in it', () => {
    const story = tell(HEALTHY, signal(0), ENGINE_EXITED, workerExited(0));
    expect(story.deeds.filter((deed) => deed.startsWith('limit'))).toHaveLength(1);
    expect(story.exit).toBe(0);
  });

  it('forces on a second signal', () => {
    const story = tell(HEALTHY, signal(0), signal(1000));
    expect(story.deeds.slice(-3)).toEqual(['worker SIGKILL', 'engine SIGKILL', `exit ${EXIT.forced}`]);
  });

  it('takes a signal that comes twice within 300 ms for one', () => {
    const story = tell(HEALTHY, signal(0, 'SIGINT'), signal(299, 'SIGINT'));
    expect(story.exit).toBeNull();
    expect(tell(HEALTHY, signal(0, 'SIGINT'), signal(299, 'SIGINT'), signal(301, 'SIGINT')).exit).toBe(
      EXIT.forced,
    );
  });

  it('takes another signal for an insistence, however soon it comes', () => {
    expect(tell(HEALTHY, signal(0, 'SIGINT'), signal(10, 'SIGTERM')).exit).toBe(EXIT.forced);
  });

  it('is not hurried by the first signal when it is ending already', () => {
    const story = tell(HEALTHY, ENGINE_EXITED, signal(0));
    expect(story.deeds).not.toContain('worker SIGTERM');
    expect(tell(HEALTHY, ENGINE_EXITED, signal(0), signal(1000)).exit).toBe(EXIT.forced);
  });

  it.each([
    ['bad_host', EXIT.badHost],
    ['bad_configuration', EXIT.configuration],
    ['bad_model', EXIT.badModel],
    ['out_of_memory', EXIT.outOfMemory],
  ] as const)('ends with a code of its own for %s, healthy before or not', (kind, code) => {
    expect(tell(engineExited(kind), workerExited(0)).exit).toBe(code);
    expect(tell(HEALTHY, engineExited(kind), workerExited(0)).exit).toBe(code);
  });

  it('kills an engine that hangs, and treats its end as a death', () => {
    const hung: SupervisorEvent = { event: 'engine_hung', message: 'it hangs' };
    const story = tell(HEALTHY, hung, ENGINE_EXITED, workerExited(0));
    expect(story.deeds[0]).toBe('engine SIGKILL');
    expect(story.exit).toBe(EXIT.engineDied);
    expect(tell(hung).deeds).toEqual([]);
  });

  it('remembers the first reason of a hang until the engine is started again', () => {
    const hung = (message: string): SupervisorEvent => ({ event: 'engine_hung', message });
    const hangs = (...events: SupervisorEvent[]) => tell({ restarts: 1 }, HEALTHY, ...events).hang;
    expect(hangs(hung('no token'), hung('no answer'))).toBe('no token');
    expect(hangs(hung('no token'), ENGINE_EXITED, LIMIT)).toBeNull();
  });

  it('never touches an engine that is not its own', () => {
    const story = tell({ external: true }, signal(0), workerExited(0));
    expect(story.deeds).toEqual(['worker SIGTERM', `limit ${GRACE_MS + WORKER_MARGIN_MS}`, 'exit 0']);
  });

  it('does nothing more once it has stopped', () => {
    const story = tell(workerExited(3), ENGINE_EXITED, workerExited(1), LIMIT, signal(0), signal(1000));
    expect(story.deeds.filter((deed) => deed.startsWith('exit'))).toEqual(['exit 3']);
  });
});

describe('with restarts allowed', () => {
  const RESTARTS = { restarts: 2 };

  it('starts the engine again after a pause that doubles, and gives up after the last one', () => {
    const story = tell(
      RESTARTS,
      HEALTHY,
      ENGINE_EXITED,
      LIMIT,
      ENGINE_EXITED,
      LIMIT,
      ENGINE_EXITED,
      workerExited(0),
    );
    expect(story.deeds).toEqual([
      ...['engine SIGKILL', 'tell engine_restarting', 'limit 1000', 'start_engine'],
      ...['engine SIGKILL', 'tell engine_restarting', 'limit 2000', 'start_engine'],
      ...['engine SIGKILL', 'tell engine_exited wasHealthy=false', 'limit 20000'],
      `exit ${EXIT.engineFailedToStart}`,
    ]);
    expect(story.states).toEqual([
      ...['running', 'waiting', 'starting', 'waiting', 'starting', 'draining', 'stopped'],
    ]);
  });

  it('forgives them to an engine that was healthy for ten minutes', () => {
    const later = engineExited('transient', RESTARTS_FORGIVEN_MS);
    const story = tell(RESTARTS, HEALTHY, ENGINE_EXITED, LIMIT, HEALTHY, later);
    expect(story.deeds.filter((deed) => deed.startsWith('limit'))).toEqual(['limit 1000', 'limit 1000']);
  });

  it.each(['bad_host', 'bad_configuration', 'bad_model', 'out_of_memory'] as const)(
    'does not try a start again that failed of %s',
    (kind) => expect(tell(RESTARTS, engineExited(kind)).deeds).not.toContain('tell engine_restarting'),
  );

  it('tries again when memory ran out that had sufficed', () => {
    expect(tell(RESTARTS, HEALTHY, engineExited('out_of_memory')).deeds).toContain('tell engine_restarting');
  });

  it('ends in order when a signal or the end of the worker comes in the pause', () => {
    expect(tell(RESTARTS, HEALTHY, ENGINE_EXITED, signal(0), workerExited(0)).exit).toBe(0);
    const story = tell(RESTARTS, HEALTHY, ENGINE_EXITED, workerExited(EXIT.deniedByQueue), LIMIT);
    expect(story.exit).toBe(EXIT.deniedByQueue);
    expect(story.deeds).not.toContain('start_engine');
  });
});

/** With the engine started. */
function tell(...events: Event[]) {
  return tellFromStart(MACHINE_FIT, ...events);
}

type Event = SupervisorEvent | { external: true } | { restarts: number };

function tellFromStart(...events: Event[]) {
  let maxRestarts = 0;
  let now: Situation = initialSituation(true);
  const deeds: string[] = [];
  const states: string[] = [];
  for (const event of events) {
    if ('external' in event) {
      now = initialSituation(false);
      continue;
    }
    if ('restarts' in event) {
      maxRestarts = event.restarts;
      continue;
    }
    const before = now.state;
    const [next, actions] = decide(now, event, { graceMs: GRACE_MS, maxRestarts });
    now = next;
    if (now.state !== before) states.push(now.state);
    deeds.push(...actions.filter((action) => action.action !== 'say').map(short));
  }
  if (events[0] === MACHINE_FIT) deeds.shift();
  const exit = deeds.find((deed) => deed.startsWith('exit '));
  return { deeds, states, hang: now.hang, exit: exit ? Number(exit.slice(5)) : null };
}

describe('before the first start', () => {
  it('the engine is started on a machine that is fit for it', () => {
    expect(decide(initialSituation(true), MACHINE_FIT, { graceMs: 0, maxRestarts: 0 })).toEqual([
      { ...initialSituation(true), engine: 'alive' },
      [{ action: 'start_engine' }],
    ]);
  });

  it('an unfit machine is reported by the worker, and ends all without a start, restarts or not', () => {
    const story = tellFromStart({ restarts: 5 }, MACHINE_UNFIT, workerExited(EXIT.badHost));
    expect(story.deeds).toContain('tell engine_exited wasHealthy=false');
    expect(story.deeds).not.toContain('start_engine');
    expect(story.exit).toBe(EXIT.badHost);
  });

  it('a signal or the end of the worker ends all, and a check that comes late starts nothing', () => {
    const signalled = tellFromStart(signal(0), MACHINE_FIT, workerExited(0), MACHINE_UNFIT);
    expect(signalled.deeds).toEqual(['worker SIGTERM', `limit ${GRACE_MS + WORKER_MARGIN_MS}`, 'exit 0']);
    const refused = tellFromStart(workerExited(EXIT.configuration), MACHINE_FIT);
    expect(refused.deeds).toEqual([`exit ${EXIT.configuration}`]);
  });
});

it('what the worker says of an engine that has ended since counts for nothing', () => {
  const late = tell(ENGINE_EXITED, HEALTHY, workerExited(0));
  expect(late.exit).toBe(EXIT.engineFailedToStart);
});

function short(action: Action): string {
  switch (action.action) {
    case 'signal_worker':
      return `worker ${action.signal}`;
    case 'signal_engine':
      return `engine ${action.signal}`;
    case 'tell_worker':
      return action.message.case === 'engine_exited'
        ? `tell engine_exited wasHealthy=${action.message.wasHealthy}`
        : `tell ${action.message.case}`;
    case 'limit':
      return `limit ${action.ms}`;
    case 'exit':
      return `exit ${action.code}`;
    default:
      return action.action;
  }
}
