import type {
  Attention,
  AuditEntry,
  FleetHistory,
  FleetView,
  ScalingControl,
  Waiting,
} from '../protocol/index.ts';
import type {
  AppliedSpec,
  ControlAnswer,
  PoolAction,
  SpecAnswer,
  SpecChange,
  SpentOnDay,
} from '../scheduler/rpc.ts';
import type { FleetSpec } from '../scheduler/spec.ts';
import type { TokenEntry } from '../settings/token-entry.ts';
import type { AuditBegin } from './audit.ts';
import type { Fleet } from './fleet.ts';
import type {
  AuditEnd,
  AuditWanted,
  Forgotten,
  HistoryRange,
  KnownModel,
  KnownWorker,
  PoolAsking,
  PoolChoice,
  PoolStart,
  RequestPage,
  RequestsWanted,
  ResponseOwner,
  SessionShare,
  Subject,
  TelemetryKind,
  TelemetryPage,
  TelemetryQuery,
  TokenChange,
  TokenUse,
} from './rpc.ts';
import type { SignInRow } from './sign-ins.ts';
import type { TokenList, TokenRefusal } from './tokens.ts';

/*
 * What can be asked of a fleet object, by the kind of call: the object makes itself a method of each entry. A call for
 * which the object does more is a method of its class. Arguments and answers are plain data.
 */

/** Where a call is answered, and when, epoch ms. */
export interface Called {
  fleet: Fleet;
  queueId: string;
  now: number;
}

/** Answered at once; nothing is written. */
export const VIEWS = {
  /** What people did, of all queues, newest first: the gateway asks the default queue's object. */
  audit: ({ fleet, now }: Called, wanted: AuditWanted): AuditEntry[] => fleet.audit.list(wanted, now),

  /**
   * Which pools requests are for that no connected worker serves, each by its model, in order.
   * @param models null: the request names none
   */
  choosePools: ({ fleet }: Called, models: readonly (string | null)[]): PoolChoice[] =>
    fleet.chooseForCallers(models),

  /** How a pool is controlled now; null: no fleet's file names it. */
  controlOf: ({ fleet }: Called, configId: string): ScalingControl | null =>
    fleet.scheduler.controlOf(configId),

  /** What was measured of a worker, a pool, a model or all. @param end epoch ms; null: now */
  history: ({ fleet }: Called, of: Subject, range: HistoryRange, end: number | null): FleetHistory =>
    fleet.readHistory(of, range, end),

  /** Every model that a worker served within the models' retention time, longest known first. */
  models: ({ fleet }: Called): KnownModel[] => fleet.models.all(),

  /** @param viewer null sees all */
  ownerOfResponse: ({ fleet }: Called, id: string, viewer: string | null): ResponseOwner =>
    fleet.responses.ownerOf(id, viewer),

  /** A page of the requests that have ended, newest first. */
  requests: ({ fleet }: Called, wanted: RequestsWanted): RequestPage => fleet.requests.list(wanted),

  /** Who has signed in so, and is not signed out. @param idSha256 of what its cookie holds */
  signedIn: ({ fleet, now }: Called, idSha256: string): SignInRow | null => fleet.signIns.find(idSha256, now),

  /** The fleet's file in force; null: none was applied. */
  spec: ({ fleet }: Called): AppliedSpec | null => fleet.scheduler.specs.current(),

  /** What each pool has cost by day, since the day of a time, epoch ms; 31 days are kept. */
  spentByDay: ({ fleet }: Called, from: number): SpentOnDay[] => fleet.scheduler.spentByDay(from),

  /** Every pool that the scheduler starts workers for. */
  starts: ({ fleet }: Called): PoolStart[] => fleet.starts(),

  /** A page of the log lines or samples of a worker. */
  telemetry: (
    { fleet }: Called,
    worker_id: string,
    kind: TelemetryKind,
    query: TelemetryQuery,
  ): TelemetryPage => fleet.telemetry.read({ worker_id, kind }, query),

  /**
   * Tokens that are made while everything runs, for all queues: the gateway asks the default queue's object.
   * @param known version that the gateway has
   */
  tokens: ({ fleet }: Called, known: number | null): TokenList => fleet.tokens.list(known),

  /** Returns what work for a pool waits for. */
  whyWaiting: ({ fleet, now }: Called, asking: PoolAsking): Waiting => fleet.view.whyWaiting(asking, now),

  /** What the rule wants of a pool; null: no fleet's file names it, or nothing was decided yet. */
  wantedWorkers: ({ fleet }: Called, configId: string): number | null =>
    fleet.scheduler.wantedWorkers(configId),
};

/** The same, once the queue has reported its numbers, which the object loses when it starts. */
export const QUEUE_VIEWS = {
  /** Workers that are connected, as the queue last told. */
  sessions: ({ fleet }: Called): SessionShare[] => fleet.workers.sessions(),

  /** The fleet as everybody is shown it; its live form is the socket of a viewer. */
  view: ({ fleet, now }: Called): FleetView => {
    fleet.view.refresh(now);
    return fleet.view.view();
  },

  /** Every worker heard of within the retention time, by worker id. */
  workers: ({ fleet }: Called): KnownWorker[] => fleet.workers.list(),
};

/** One commit each. */
export const COMMANDS = {
  /** All tokens of a file or a setting: what has changed since the last such call is recorded. */
  auditFileTokens: ({ fleet, queueId, now }: Called, entries: readonly TokenEntry[]): void =>
    fleet.audit.tokensOfFile(entries, queueId, now),

  /** Records what is about to be done; on disk when this answers. A second time under the same id changes nothing. */
  beginAudit: ({ fleet, now }: Called, entry: AuditBegin): void => fleet.audit.begin(entry, now),

  /** @returns the entry as it is now, or was, or why nothing was changed */
  changeTokens: ({ fleet }: Called, change: TokenChange): TokenEntry | TokenRefusal =>
    fleet.tokens.change(change),

  /** Records what became of what `beginAudit` recorded. */
  endAudit: ({ fleet, now }: Called, id: string, end: AuditEnd): void => fleet.audit.end(id, end, now),

  /** The engine beside this worker keeps a response. */
  keepResponse: ({ fleet, now }: Called, id: string, workerId: string, tenant: string | null): void =>
    fleet.responses.keep(id, workerId, tenant, now),

  /** A browser has signed in to the page. */
  signIn: ({ fleet, now }: Called, signIn: SignInRow): void => fleet.signIns.add(signIn, now),

  /** Notes when tokens were used, those of files too. @returns of all, by the token's hash, epoch ms */
  tokenUses: ({ fleet, now }: Called, told: readonly TokenUse[]): Record<string, number> =>
    fleet.tokens.uses(told, now),
};

/** One commit each, and viewers are shown what has changed. */
export const SHOWN_COMMANDS = {
  /**
   * Somebody sees to a problem of the attention list. @param by name of the token; null: none was asked for
   * @returns the problem; null: it is not in the list
   */
  acknowledge: ({ fleet, now }: Called, id: string, by: string | null): Attention | null =>
    fleet.alerts.acknowledge(id, by, now),

  /** Forgets what is known of a worker that is gone, because an operator has no use for it. */
  forgetWorker: ({ fleet }: Called, id: string): Forgotten => fleet.forgetWorker(id),
};

/** What an operator says about machines: the same, and the scheduler looks at it at once. */
export const OPERATOR_COMMANDS = {
  /** Puts a fleet's file in force. @param dryRun only tells what would change */
  applySpec: ({ fleet }: Called, spec: FleetSpec, dryRun: boolean): SpecAnswer =>
    fleet.scheduler.specs.apply(spec, dryRun),

  /** What an operator wants of one pool. @param dryRun only tells what it would do */
  control: ({ fleet }: Called, configId: string, action: PoolAction, dryRun: boolean): ControlAnswer =>
    fleet.scheduler.control(configId, action, dryRun),

  /** Takes the fleet's file back: all that was launched is drained and terminated. Null: there is none. */
  removeSpec: ({ fleet }: Called, dryRun: boolean): SpecChange | null => fleet.scheduler.specs.remove(dryRun),
};

/** All of these tables. */
export type FleetCalls = typeof VIEWS &
  typeof QUEUE_VIEWS &
  typeof COMMANDS &
  typeof SHOWN_COMMANDS &
  typeof OPERATOR_COMMANDS;
