import type { SchedulerRpc } from '../scheduler/rpc.ts';
import type { Fleet } from './fleet.ts';
import type { AuditCalls, FleetRpc, TokenCalls } from './rpc.ts';

/*
 * The calls of the fleet object that are one call of a part of the fleet, by kind. The object makes itself a method of
 * each; what it does more for has a method in its class.
 */

/** All that the object offers over RPC. */
export type FleetCalls = FleetRpc & TokenCalls & AuditCalls & SchedulerRpc;

/** Where a call is answered, and when, epoch ms. */
export interface Called {
  fleet: Fleet;
  queueId: string;
  now: number;
}

type Table = {
  [Name in keyof FleetCalls]?: (
    called: Called,
    ...asked: Parameters<FleetCalls[Name]>
  ) => Awaited<ReturnType<FleetCalls[Name]>>;
};

/** Answered at once; nothing is written. */
export const VIEWS = {
  audit: ({ fleet, now }, wanted) => fleet.audit.list(wanted, now),
  choosePools: ({ fleet }, models) => fleet.chooseForCallers(models),
  controlOf: ({ fleet }, configId) => fleet.scheduler.controlOf(configId),
  history: ({ fleet }, of, range, end) => fleet.readHistory(of, range, end),
  models: ({ fleet }) => fleet.models.all(),
  ownerOfResponse: ({ fleet }, id, viewer) => fleet.responses.ownerOf(id, viewer),
  requests: ({ fleet }, wanted) => fleet.requests.list(wanted),
  signedIn: ({ fleet, now }, idSha256) => fleet.signIns.find(idSha256, now),
  spec: ({ fleet }) => fleet.scheduler.specs.current(),
  spentByDay: ({ fleet }, from) => fleet.scheduler.spentByDay(from),
  starts: ({ fleet }) => fleet.starts(),
  telemetry: ({ fleet }, worker_id, kind, query) => fleet.telemetry.read({ worker_id, kind }, query),
  tokens: ({ fleet }, known) => fleet.tokens.list(known),
  whyWaiting: ({ fleet, now }, asking) => fleet.view.whyWaiting(asking, now),
  wantedWorkers: ({ fleet }, configId) => fleet.scheduler.wantedWorkers(configId),
} satisfies Table;

/** One commit each. */
export const COMMANDS = {
  auditFileTokens: ({ fleet, queueId, now }, entries) => fleet.audit.tokensOfFile(entries, queueId, now),
  beginAudit: ({ fleet, now }, entry) => fleet.audit.begin(entry, now),
  changeTokens: ({ fleet }, change) => fleet.tokens.change(change),
  endAudit: ({ fleet, now }, id, end) => fleet.audit.end(id, end, now),
  keepResponse: ({ fleet, now }, id, workerId, tenant) => fleet.responses.keep(id, workerId, tenant, now),
  signIn: ({ fleet, now }, signIn) => fleet.signIns.add(signIn, now),
  tokenUses: ({ fleet, now }, told) => fleet.tokens.uses(told, now),
} satisfies Table;

/** What an operator says about machines: one commit each, and the scheduler looks at it at once. */
export const OPERATOR_COMMANDS = {
  applySpec: ({ fleet }, spec, dryRun) => fleet.scheduler.specs.apply(spec, dryRun),
  control: ({ fleet }, configId, action, dryRun) => fleet.scheduler.control(configId, action, dryRun),
  removeSpec: ({ fleet }, dryRun) => fleet.scheduler.specs.remove(dryRun),
} satisfies Table;

/** The methods. */
export type Offered = Pick<
  FleetCalls,
  keyof typeof VIEWS | keyof typeof COMMANDS | keyof typeof OPERATOR_COMMANDS
>;
