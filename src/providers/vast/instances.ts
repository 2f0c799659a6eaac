import * as z from 'zod';
import type { ListedMachine } from '../../scheduler/rpc.ts';

/** The fields of an instance that this driver reads; four of them make up its state, with a message for people. */
export const VastInstance = z.object({
  id: z.number().int(),
  label: z.string().nullish(),
  machine_id: z.number().int().nullish(),
  /** The container's state; null while Vast looks for the machine. */
  actual_status: z.string().nullish(),
  /** The state of the contract: running, stopped or unloaded. */
  cur_state: z.string().nullish(),
  next_state: z.string().nullish(),
  /** The state that the instance's owner wants. */
  intended_status: z.string().nullish(),
  status_msg: z.string().nullish(),
  /** Whether the instance is interruptible: it was bid for, and is stopped when somebody bids more. */
  is_bid: z.boolean().nullish(),
  dph_total: z.number().nullish(),
  /** When the instance started, epoch s. */
  start_date: z.number().nullish(),
});
export type VastInstance = z.output<typeof VastInstance>;

const STATES: Record<string, ListedMachine['state']> = {
  created: 'starting',
  loading: 'starting',
  running: 'running',
  rebooting: 'starting',
  exited: 'ended',
  stopped: 'ended',
  // Vast still bills the GPUs of a frozen instance, and this driver does not thaw it.
  frozen: 'ended',
};

export function machineOf(instance: VastInstance): ListedMachine {
  const { id, label, start_date, dph_total, status_msg } = instance;
  const state = stateOf(instance);
  return {
    external_id: String(id),
    name: label ?? '',
    state,
    ...(isOutbid(instance) ? { preempted: true } : {}),
    created_at: start_date ? Math.round(start_date * 1000) : null,
    started_at: null,
    ended_at: null,
    price_per_hour: dph_total ?? null,
    exit_code: null,
    detail: status_msg?.trim() || (isPlain(state) ? null : `Vast says ${instance.actual_status}`),
  };
}

function isPlain(state: ListedMachine['state']): boolean {
  return state === 'running' || state === 'starting';
}

/**
 * Returns whether Vast has taken the machine from an interruptible instance, which nobody else does: this driver
 * destroys and never stops. Vast may still say that the owner wants it to run.
 */
function isOutbid({ is_bid, cur_state, next_state, actual_status }: VastInstance): boolean {
  if (is_bid !== true || cur_state !== 'stopped') return false;
  return next_state === 'stopped' || STATES[actual_status ?? ''] === 'ended';
}

function isStopped({ cur_state, next_state, intended_status }: VastInstance): boolean {
  return [cur_state, next_state, intended_status].every((state) => state === 'stopped');
}

/**
 * Returns the state of an instance. A state that STATES lacks does not count as ended: `offline` and `unknown` only say
 * that Vast has not heard from the host recently.
 */
function stateOf(instance: VastInstance) {
  const { actual_status, status_msg } = instance;
  // The instance was outbid, or the money is used up: it would pay for its disk for ever.
  if (isOutbid(instance) || isStopped(instance)) return 'ended';
  if (actual_status === 'created' && status_msg?.includes('OCI runtime create failed')) return 'ended';
  return actual_status == null ? 'starting' : (STATES[actual_status] ?? 'unknown');
}

/** A machine that has not started after this many ms is slow. */
const SLOW_AFTER_MS = 300_000;

/** Remembers the machines of the instances that had not started when last listed: a hint for the next choice. */
export class StartingMachines {
  #machines = new Map<number, { machineId: number; since: number }>();

  /** Remembers the instances of a list. @param machines those of the instances, in the same order */
  keep(instances: VastInstance[], machines: ListedMachine[]): void {
    const starting = instances.flatMap(({ id, machine_id }, index) => {
      const { state, created_at } = machines[index] ?? {};
      if (state !== 'starting' || machine_id == null || !created_at) return [];
      return [[id, { machineId: machine_id, since: created_at }] as const];
    });
    this.#machines = new Map(starting);
  }

  /** Returns the machine of an instance that is slow to start, or null. @param now epoch ms */
  slowMachineOf(instanceId: number, now: number): number | null {
    const known = this.#machines.get(instanceId);
    return known && now - known.since > SLOW_AFTER_MS ? known.machineId : null;
  }
}
