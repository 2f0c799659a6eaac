import type { Fault } from './plan.ts';
import type { Surroundings } from './worker-boot.ts';
import type { WorkerProcess } from './worker-process.ts';

/** Longer than a relay keeps an answer that nobody asks for, ms. */
const UNCLAIMED_MS = 35_000;

/** Lets one planned fault happen. */
export function strike(around: Surroundings, fault: Fault, worker: WorkerProcess): void {
  const { server, trace, oracle } = around;
  const { at: _at, kind, worker: name, ...more } = fault;
  trace.say(`*** ${kind} ${name} ${JSON.stringify(more)}`);
  switch (fault.kind) {
    case 'cut':
      return worker.cut(fault.channel, 'nobody');
    case 'half_open':
      return worker.cut('both', fault.unseenBy);
    case 'stall':
      return worker.stall(fault.direction, fault.ms);
    case 'partition':
      return worker.partition(fault.ms);
    case 'kill':
      return worker.kill(fault.downMs, fault.isPowerLoss);
    case 'freeze':
      return worker.freeze(fault.ms);
    case 'drain':
      if (fault.noticeMs !== null) return worker.takeMachine(fault.noticeMs);
      return worker.drain(fault.secondSignalAfterMs);
    case 'engine_dies':
      return worker.engineDies();
    case 'engine_unhealthy':
      return worker.engineUnhealthy(fault.ms);
    case 'engine_flooded':
      return worker.floodEngine(fault.ms);
    case 'disk_full':
      return worker.fillDisk(fault.ms);
    case 'queue_crash':
      if (fault.isInCommit) return server.crashInCommit(fault.downMs, fault.isPowerLoss);
      return server.crash(fault.downMs, fault.isPowerLoss);
    case 'queue_restart':
      return server.restart(fault.downMs);
    case 'queue_freeze':
      oracle.queueFrozen(fault.ms);
      return server.freeze(fault.ms);
    case 'clock_set':
      return server.setClock(fault.byMs);
    case 'queue_reset':
      return server.resetQueue();
    case 'batches_reset':
    case 'batches_reset_in_commit':
    case 'batches_reset_at_call':
      return server.batches.strike(fault);
    case 'hibernate':
      if (!server.hibernateQueue()) trace.say('not hibernated: busy');
      return;
    case 'relay_reset':
      // A new relay does not know whose answers these are, and waits for somebody to ask for them.
      oracle.trouble(name, UNCLAIMED_MS);
      return server.resetRelay(name);
  }
}
