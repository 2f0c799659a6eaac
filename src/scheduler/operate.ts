import { giveUp } from './act.ts';
import type { Controls } from './control-table.ts';
import type { Core } from './core.ts';
import type { AppliedSpec, ControlAnswer, PoolAction } from './rpc.ts';

/** A worker that an operator requested is kept for this many ms, whether there is work or not. */
const HELD_MS = 10 * 60_000;

interface Subject {
  core: Core;
  controls: Controls;
  applied: AppliedSpec | null;
}

/** Carries out an operator's action on one pool. */
export function control(
  { core, controls, applied }: Subject,
  configId: string,
  action: PoolAction,
  dryRun: boolean,
): ControlAnswer {
  const spec = applied?.spec.pools[configId];
  if (!spec) {
    const known = Object.keys(applied?.spec.pools ?? {}).join(', ');
    const message = `The fleet has no pool "${configId}"${known ? `, only ${known}` : ''}.`;
    return { ok: false, reason: 'unknown_pool', message };
  }
  const now = core.now();
  const own = core.launches.alive().filter(({ config_id }) => config_id === configId);
  const before = controls.of(configId);
  const would = dryRun ? 'would be' : 'is';
  const answer = (text: string, after = before.control): ControlAnswer => ({
    ok: true,
    text,
    control: after,
  });
  switch (action) {
    case 'pause':
      if (!dryRun) controls.change(configId, { control: 'paused' });
      return answer(`${configId} ${would} paused: nothing is launched and nothing drained.`, 'paused');
    case 'resume':
      if (!dryRun) controls.change(configId, { control: 'automatic', forgiven_at: now });
      return answer(`${configId} ${would} scaled by what it has to do again.`, 'automatic');
    case 'drain':
      if (!dryRun) {
        controls.change(configId, { control: 'drained', at_least: null });
        for (const launch of own) giveUp(core, launch);
      }
      return answer(
        `${workers(own.length)} of ${configId} ${dryRun ? 'would be' : own.length === 1 ? 'is' : 'are'} drained, and none ${would} launched until it is resumed.`,
        'drained',
      );
    case 'launch': {
      if (before.control !== 'automatic') {
        const message = `${configId} is ${before.control}: resume it first.`;
        return { ok: false, reason: 'refused', message };
      }
      const staying = own.filter(({ state }) => state !== 'draining' && state !== 'terminating').length;
      if (staying >= spec.max) {
        const message = `${configId} has ${workers(staying)} already, and its max is ${spec.max}: raise it in the fleet's file.`;
        return { ok: false, reason: 'refused', message };
      }
      const wanted = staying + 1;
      if (!dryRun) controls.change(configId, { at_least: { workers: wanted, until: now + HELD_MS } });
      return answer(
        `${configId} ${dryRun ? 'would be' : 'is'} given at least ${workers(wanted)} for ${HELD_MS / 60_000} min, as far as the budget pays for it.`,
      );
    }
  }
}

function workers(count: number): string {
  return count === 1 ? '1 worker' : `${count} workers`;
}
