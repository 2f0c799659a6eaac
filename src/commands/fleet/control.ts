import { EXIT, UserError } from '../../process/index.ts';
import type { PoolAction, SpecChange } from '../../scheduler/rpc.ts';
import { askQueueJson, type QueueTarget } from '../ask-queue.ts';
import { print } from '../terminal.ts';
import { dollars } from './cost.ts';

interface ControlOptions extends QueueTarget {
  dryRun?: boolean;
}

/** Runs `worker-vllm fleet launch|drain|pause|resume CONFIG`. @throws UserError when the queue refuses */
export async function runFleetControl(
  action: PoolAction,
  configId: string,
  { dryRun = false, ...target }: ControlOptions,
): Promise<number> {
  const path = `/api/fleet/pools/${encodeURIComponent(configId)}/${action}`;
  const { text } = await askQueueJson<{ text: string }>(target, path, {
    method: 'POST',
    scope: 'admin',
    body: { dry_run: dryRun },
  });
  print(`${dryRun ? 'Would be done: ' : ''}${text}`);
  return EXIT.ok;
}

interface RollOptions extends ControlOptions {
  to?: string;
  back?: boolean;
  pause?: boolean;
  resume?: boolean;
}

/** Runs `worker-vllm fleet roll CONFIG`. @throws UserError for options that exclude each other; when the queue refuses */
export async function runFleetRoll(
  configId: string,
  { dryRun = false, to, back, pause, resume, ...target }: RollOptions,
): Promise<number> {
  const given = [
    ...(to === undefined ? [] : [{ action: 'to', version: to }]),
    ...(back ? [{ action: 'back' }] : []),
    ...(pause ? [{ action: 'pause' }] : []),
    ...(resume ? [{ action: 'resume' }] : []),
  ];
  if (given.length > 1)
    throw new UserError(
      'Give one of --to, --back, --pause and --resume, or none to start the same version anew.',
    );
  const path = `/api/fleet/pools/${encodeURIComponent(configId)}/roll`;
  const { text } = await askQueueJson<{ text: string }>(target, path, {
    method: 'POST',
    scope: 'admin',
    body: { ...(given[0] ?? { action: 'anew' }), dry_run: dryRun },
  });
  print(`${dryRun ? 'Would be done: ' : ''}${text}`);
  return EXIT.ok;
}

/** Runs `worker-vllm fleet remove`: everything that was launched is drained and terminated. */
export async function runFleetRemove({ dryRun = false, ...target }: ControlOptions): Promise<number> {
  print(changeLines(await removeFleet(target, dryRun)).join('\n'));
  return EXIT.ok;
}

export function removeFleet(target: QueueTarget, dryRun = false): Promise<SpecChange> {
  const path = `/api/fleet/spec${dryRun ? '?dry_run=true' : ''}`;
  return askQueueJson(target, path, { method: 'DELETE', scope: 'admin' });
}

/** Puts a fleet in force. @param spec the spec as the file has it @throws UserError, UnreachableQueue */
export function applyFleet(target: QueueTarget, spec: unknown, dryRun = false): Promise<SpecChange> {
  const body = { spec, dry_run: dryRun };
  return askQueueJson(target, '/api/fleet/spec', { method: 'POST', scope: 'admin', body });
}

/** Returns lines that say what has changed, or would change, and what it costs. */
export function changeLines({ applied, changes, price_per_hour }: SpecChange): string[] {
  const { min, max } = price_per_hour;
  return [
    ...(applied ? [] : ['Nothing was changed. This would be:']),
    ...(changes.length > 0 ? changes : ['Nothing is different.']),
    `It costs $${dollars(min)} an hour at min, $${dollars(max)} at max.`,
  ];
}
