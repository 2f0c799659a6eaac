import { WORKER_MARGIN_MS } from '../../process/way-down.ts';

/** A notice that the provider takes this worker's machine away. */
export interface Notice {
  /** Who gives the notice, for people. */
  from: string;
  /** When the machine is gone, epoch ms; null: the notice does not say. */
  endsAtMs: number | null;
}

/** Google Cloud stops a machine this long after its notice, ms. */
const GOOGLE_MS = 30_000;
/** `Date.parse` takes nearly any text for a time. */
const ISO_TIME = /^\d{4}-\d\d-\d\dT/;
/** The last time that JavaScript can represent, epoch ms. */
const LAST_MS = 8.64e15;

/**
 * Returns the grace of the drain that follows a notice: what the notice leaves, less the time that the worker needs to
 * end, ms.
 * @param ownGraceMs the grace after a signal, which counts where the notice names no time
 */
export function graceMsOf({ endsAtMs }: Notice, nowMs: number, ownGraceMs: number): number {
  return endsAtMs === null ? ownGraceMs : Math.max(0, endsAtMs - nowMs - WORKER_MARGIN_MS);
}

/** Reads AWS' `spot/instance-action`. Returns null for anything else, as a stand-in for its service may answer. */
export function awsNotice(text: string): Notice | null {
  const { action, time } = (parsed(text) ?? {}) as { action?: unknown; time?: unknown };
  return typeof action === 'string' ? { from: 'AWS', endsAtMs: timeIn(time) } : null;
}

/** Reads Google Cloud's `instance/preempted`. */
export function googleNotice(text: string, nowMs: number): Notice | null {
  return text.trim() === 'TRUE' ? { from: 'Google Cloud', endsAtMs: nowMs + GOOGLE_MS } : null;
}

/** An event of Azure's `scheduledevents`; others have fields of other forms. */
interface AzureEvent {
  EventId?: unknown;
  EventType?: unknown;
  /** The names of the machines that the event is for: every machine of a scale set is told of all. */
  Resources?: unknown;
  /** Empty once the event has begun. */
  NotBefore?: unknown;
}

/** Reads Azure's `scheduledevents`. @param machine the name of this machine */
export function azureNotice(text: string, machine: string): (Notice & { eventId: string }) | null {
  const { Events: events } = (parsed(text) ?? {}) as { Events?: unknown };
  const all = (Array.isArray(events) ? events : []) as (AzureEvent | null)[];
  for (const event of all) {
    const { EventId: eventId, EventType: type, Resources: machines, NotBefore: time } = event ?? {};
    if (type !== 'Preempt' || typeof eventId !== 'string') continue;
    if (Array.isArray(machines) && machines.includes(machine))
      return { from: 'Azure', endsAtMs: timeIn(time), eventId };
  }
  return null;
}

/**
 * Reads the file of CASOLA_NOTICE_FILE: a number of seconds from when it was written, or a time. Anything else, and
 * nothing, is a notice that names no time.
 * @param writtenAtMs epoch ms
 */
export function fileNotice(path: string, text: string, writtenAtMs: number): Notice {
  const content = text.trim();
  const seconds = /^\d+(\.\d+)?$/.test(content) ? Number(content) : null;
  const time = ISO_TIME.test(content) ? timeIn(content) : null;
  const endsAtMs = seconds === null ? time : writtenAtMs + seconds * 1000;
  return { from: `the file ${path}`, endsAtMs: endsAtMs !== null && endsAtMs <= LAST_MS ? endsAtMs : null };
}

/** Returns a time as epoch ms, or null if the text is none. */
function timeIn(text: unknown): number | null {
  const time = typeof text === 'string' ? Date.parse(text) : Number.NaN;
  return Number.isNaN(time) ? null : time;
}

function parsed(text: string): object | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' ? value : null;
  } catch {
    return null;
  }
}
