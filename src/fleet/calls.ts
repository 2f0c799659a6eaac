import type {
  AlertMute,
  AlertsView,
  Attention,
  AuditEntry,
  FleetHistory,
  FleetView,
  MuteRequest,
  ScalingControl,
  Waiting,
} from '../protocol/index.ts';
import type {
  AppliedSpec,
  ControlAnswer,
  PoolAction,
  RollAnswer,
  RollRequest,
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
  Machine,
  PersonSeen,
  PoolAsking,
  PoolChoice,
  PoolStart,
  RequestPage,
  RequestsWanted,
  SessionShare,
  Subject,
  TelemetryKind,
  TelemetryPage,
  TelemetryQuery,
  TokenChange,
  TokenUse,
} from './rpc.ts';
import type { SignInRow, TokenList, TokenRefusal } from './tokens.ts';

/*
 * The calls of a fleet object, by kind: the object makes itself a method of each entry. A call for which the object
 * does more is a method of its class. Arguments and answers are plain data.
 */

/** The fleet that answers a call, and when, epoch ms. */
export interface Called {
  fleet: Fleet;
  queueId: string;
  now: number;
}

/** Calls that are answered at once; nothing is written. */
export const VIEWS = {
  /** Returns the receivers of alerts, without secrets, and the mutes in force. */
  alerts: ({ fleet, now }: Called): AlertsView => fleet.alerting.view(now),

  /** Lists what people did, for all queues, newest first: the gateway asks the default queue's object. */
  audit: ({ fleet, now }: Called, wanted: AuditWanted): AuditEntry[] => fleet.audit.list(wanted, now),

  /**
   * Chooses pools for requests that no connected worker serves, one for each model, in order.
   * @param models null: the request names none
   */
  choosePools: ({ fleet }: Called, models: readonly (string | null)[]): PoolChoice[] =>
    fleet.chooseForCallers(models),

  /** Returns how a pool is controlled now, or null if no fleet's file names it. */
  controlOf: ({ fleet }: Called, configId: string): ScalingControl | null =>
    fleet.scheduler.controlOf(configId),

  /** Returns the history of a worker, a pool, a model or the fleet. @param end epoch ms; null: now */
  history: ({ fleet }: Called, of: Subject, range: HistoryRange, end: number | null): FleetHistory =>
    fleet.readHistory(of, range, end),

  /** Lists every model that a worker served within the models' retention time, longest known first. */
  models: ({ fleet }: Called): KnownModel[] => fleet.models.all(),

  /** Returns a page of the requests that have ended, newest first. */
  requests: ({ fleet }: Called, wanted: RequestsWanted): RequestPage => fleet.requests.list(wanted),

  /** Finds a sign-in that has not ended. @param idSha256 the hash of what the browser's cookie holds */
  signedIn: ({ fleet, now }: Called, idSha256: string): SignInRow | null => fleet.signIns.find(idSha256, now),

  /** Returns the fleet's file in force, or null if none was applied. */
  spec: ({ fleet }: Called): AppliedSpec | null => fleet.scheduler.specs.current(),

  /** Returns what each pool has cost by day, since the day of a time, epoch ms; 400 days are stored. */
  spentByDay: ({ fleet }: Called, from: number): SpentOnDay[] => fleet.scheduler.spentByDay(from),

  /** Lists every pool that the scheduler starts workers for. */
  starts: ({ fleet }: Called): PoolStart[] => fleet.starts(),

  /** Returns a page of the log lines or samples of a worker. */
  telemetry: (
    { fleet }: Called,
    worker_id: string,
    kind: TelemetryKind,
    query: TelemetryQuery,
  ): TelemetryPage => fleet.telemetry.read({ worker_id, kind }, query),

  /**
   * Lists the tokens made through the API, for all queues: the gateway asks the default queue's object.
   * @param known the version that the gateway has
   */
  tokens: ({ fleet }: Called, known: number | null): TokenList => fleet.tokens.list(known),

  /** Returns what the work for a pool waits for. */
  whyWaiting: ({ fleet, now }: Called, asking: PoolAsking): Waiting => fleet.view.whyWaiting(asking, now),

  /**
   * Returns how many workers the scheduler's rule wants for a pool, or null if no fleet's file names it, or nothing was
   * decided yet.
   */
  wantedWorkers: ({ fleet }: Called, configId: string): number | null =>
    fleet.scheduler.wantedWorkers(configId),
};

/** Views that are answered only once the queue has reported its numbers, which the object loses when it starts. */
export const QUEUE_VIEWS = {
  /** Lists the connected workers, as the queue last reported them. */
  sessions: ({ fleet }: Called): SessionShare[] => fleet.machines.sessions(),

  /** Returns the fleet as everybody sees it; its live form is the socket of a viewer. */
  view: ({ fleet, now }: Called): FleetView => {
    fleet.view.refresh(now);
    return fleet.view.view();
  },

  /** Lists every worker that reported within the retention time, by worker id. */
  workers: ({ fleet }: Called): Machine[] => fleet.machines.list(),
};

/** Calls that are one commit each. */
export const COMMANDS = {
  /**
   * Records what has changed since the last such call in the tokens of a file or a setting. @param entries all tokens
   */
  auditFileTokens: ({ fleet, queueId, now }: Called, entries: readonly TokenEntry[]): void =>
    fleet.audit.tokensOfFile(entries, queueId, now),

  /**
   * Records what is about to be done; the entry is on disk when this answers. A second call with the same id changes
   * nothing.
   */
  beginAudit: ({ fleet, now }: Called, entry: AuditBegin): void => fleet.audit.begin(entry, now),

  /** Makes, changes or revokes a token. @returns the entry as it is now, or as it was, or why nothing was changed */
  changeTokens: ({ fleet, now }: Called, change: TokenChange): TokenEntry | TokenRefusal =>
    fleet.tokens.change(change, now),

  /** Records the end of an action that `beginAudit` recorded. */
  endAudit: ({ fleet, now }: Called, id: string, end: AuditEnd): void => fleet.audit.end(id, end, now),

  /** Forgets the words of a request's error, which may quote what was asked for. */
  eraseError: ({ fleet }: Called, id: string): void => fleet.requests.eraseError(id),

  /**
   * Takes note of a person for whom an issuer vouches, and records a new entry, or another group, in the audit.
   * @returns the entry, or why there is none
   */
  seePerson: (
    { fleet, queueId, now }: Called,
    person: PersonSeen,
    route: string,
  ): TokenEntry | TokenRefusal => {
    const seen = fleet.tokens.see(person);
    if (typeof seen === 'string') return seen;
    if (seen.entry !== seen.before) fleet.audit.person(seen, { route, queueId, now });
    return seen.entry;
  },

  /** Stores that a browser has signed in to the page. */
  signIn: ({ fleet, now }: Called, signIn: SignInRow): void => fleet.signIns.add(signIn, now),

  /**
   * Notes when tokens were used, also tokens of files. @returns the uses of all tokens, by the token's hash, epoch ms
   */
  tokenUses: ({ fleet, now }: Called, told: readonly TokenUse[]): Record<string, number> =>
    fleet.tokens.uses(told, now),
};

/** Calls that are one commit each, after which viewers see what has changed. */
export const SHOWN_COMMANDS = {
  /**
   * Notes who has acknowledged a problem. @param by name of the token; null: none was required
   * @returns the problem, or null if it is not in the list
   */
  acknowledge: ({ fleet, now }: Called, id: string, by: string | null): Attention | null =>
    fleet.alerting.acknowledge(id, by, now),

  /** Ends a mute early. @returns the mute as it was, or null if none of that id is in force */
  endMute: ({ fleet, now }: Called, id: string): AlertMute | null => fleet.alerting.endMute(id, now),

  /** Mutes alerts. @param by name of the token; null: none was required @returns null: there are too many mutes */
  mute: ({ fleet, now }: Called, request: MuteRequest, by: string | null): AlertMute | null =>
    fleet.alerting.mute(request, by, now),

  /** Forgets what is known of a worker that is gone, at an operator's request. */
  forgetWorker: ({ fleet }: Called, id: string): Forgotten => fleet.forgetWorker(id),
};

/**
 * An operator's commands about machines: one commit each, after which the scheduler takes note at once and viewers see
 * what has changed.
 */
export const OPERATOR_COMMANDS = {
  /** Puts a fleet's file in force. @param dryRun only reports what would change */
  applySpec: ({ fleet }: Called, spec: FleetSpec, dryRun: boolean): SpecAnswer =>
    fleet.scheduler.specs.apply(spec, dryRun),

  /** Carries out an operator's action on one pool. @param dryRun only reports what it would do */
  control: ({ fleet }: Called, configId: string, action: PoolAction, dryRun: boolean): ControlAnswer =>
    fleet.scheduler.control(configId, action, dryRun),

  /** Carries out what an operator says about the versions of a pool. @param dryRun only reports what it would do */
  roll: ({ fleet }: Called, configId: string, request: RollRequest, dryRun: boolean): RollAnswer =>
    fleet.scheduler.roll(configId, request, dryRun),

  /**
   * Withdraws the fleet's file: all machines that were launched are drained and terminated. @returns null: there is no
   * file
   */
  removeSpec: ({ fleet }: Called, dryRun: boolean): SpecChange | null => fleet.scheduler.specs.remove(dryRun),
};

/** The calls of all these tables. */
export type FleetCalls = typeof VIEWS &
  typeof QUEUE_VIEWS &
  typeof COMMANDS &
  typeof SHOWN_COMMANDS &
  typeof OPERATOR_COMMANDS;
