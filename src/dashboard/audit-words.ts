import type { AuditAction, AuditEntry } from '../protocol/audit.ts';
import { workerName } from '../protocol/scaling.ts';
import { inWords } from '../show/format.ts';

/** The actions of the audit, in words. */
export const ACTION_WORDS: Record<AuditAction, string> = {
  'token.create': 'made a token',
  'token.change': 'changed a token',
  'token.rotate': 'rotated a token',
  'token.revoke': 'revoked a token',
  'person.join': 'signed in for the first time',
  'person.change': 'came back in another group',
  'fleet.apply': "applied the fleet's file",
  'fleet.remove': "removed the fleet's file",
  'pool.launch': 'asked for a worker',
  'pool.drain': 'drained a pool',
  'pool.pause': 'paused a pool',
  'pool.resume': 'resumed a pool',
  'pool.roll': 'changed the version of a pool',
  'attention.acknowledge': 'acknowledged a problem',
  'alerts.mute': 'muted alerts',
  'alerts.unmute': 'ended a mute of alerts',
  'alerts.test': 'tested a receiver of alerts',
  'worker.forget': 'forgot a worker',
  'job.cancel': 'cancelled a job',
  'job.retry': 'retried a job',
  'batch.cancel': 'cancelled a batch',
  'file.delete': 'deleted a file',
  'jobs.cancel': 'cancelled all jobs that matched',
  'jobs.retry': 'retried all jobs that matched',
  'queue.purge': 'purged the queue',
  'kept_requests.read': 'downloaded kept requests',
  'kept_requests.erase': 'erased kept requests',
};

/** Returns the name of the token that acted or, if there is none, the reason. */
export function actorInWords({ actor, route }: Pick<AuditEntry, 'actor' | 'route'>): string {
  return actor ?? (route === 'token file' ? 'a token file' : 'without a token');
}

/** Returns by whom it was done, as a sentence ends: `by olga`, `without a token`. */
export function byWhom(entry: Pick<AuditEntry, 'actor' | 'route'>): string {
  const isNamed = entry.actor !== null || entry.route === 'token file';
  return `${isNamed ? 'by ' : ''}${actorInWords(entry)}`;
}

/** Returns what was acted on, with kinds of problems in words: `worker lost: gpu-node-3`, `pool llama-*, worker lost`. */
export function targetInWords({ action, target }: Pick<AuditEntry, 'action' | 'target'>): string {
  if (action === 'attention.acknowledge') {
    const [, kind, about] = /^([^/]*)\/?(.*)$/s.exec(target)!;
    return about ? `${inWords(kind!)}: ${workerName(about)}` : inWords(kind!);
  }
  const isMute = action === 'alerts.mute' || action === 'alerts.unmute';
  return isMute ? target.replace(/\bkind (\w+)$/, (_, kind) => inWords(kind)) : target;
}

/** The fields that are left out, since the target and the time of the entry show them. */
const SAID_ALREADY = ['name', 'created_at', 'text'];

/**
 * Returns what an action changed, a clause for each field: `scopes read → submit`. For something that was made or
 * removed, returns its fields.
 */
export function changeInWords({ before, after }: Pick<AuditEntry, 'before' | 'after'>): string {
  const [was, is] = [fieldsOf(before), fieldsOf(after)];
  // The audit records the changes of a fleet's file in sentences.
  if (Array.isArray(is.changes)) return is.changes.join('; ');
  const names = [...new Set([...Object.keys(was), ...Object.keys(is)])].filter(
    (name) => !SAID_ALREADY.includes(name),
  );
  const clauses = names.flatMap((name) => {
    const [from, to] = [valueInWords(was[name]), valueInWords(is[name])];
    const field = fieldInWords(name);
    if (from === to) return [];
    if (before !== null && after !== null && name in was && name in is) return [`${field} ${from} → ${to}`];
    return [`${field} ${name in is ? to : from}`];
  });
  return clauses.join(', ');
}

/** Returns the fields of a value. A token's entries in a file are a list, usually of one. */
function fieldsOf(value: unknown): Record<string, unknown> {
  const one = Array.isArray(value) && value.length === 1 ? value[0] : value;
  if (typeof one === 'object' && one !== null && !Array.isArray(one)) return { ...one };
  return one === null || one === undefined ? {} : { '': one };
}

/** Returns the name of a field as the page says it: `requests per minute`, `pool`. */
function fieldInWords(name: string): string {
  return name === 'config_id' ? 'pool' : inWords(name);
}

/** A time in ISO's form. */
const ISO_TIME = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d+)?Z$/;

function valueInWords(value: unknown): string {
  if (value === undefined || value === null) return 'none';
  if (Array.isArray(value)) return value.map(valueInWords).join(' and ');
  if (typeof value !== 'object') return String(value).replace(ISO_TIME, '$1 $2 UTC');
  const fields = Object.entries(value).map(([name, of]) => `${fieldInWords(name)} ${valueInWords(of)}`);
  return `(${fields.join(', ')})`;
}
