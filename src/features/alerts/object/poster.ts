import type { AlertingPorts } from '../../../fleet/alerting.ts';
import type { FleetView, TestPost } from '../../../protocol/index.ts';
import type { AlertReceiver } from '../../../settings/alert-receivers.ts';
import type { Outgoing, Told, ToldNews } from '../receivers/outgoing.ts';
import { outgoingOf, rulesOf } from '../receivers/receivers.ts';
import type { Alerts, News } from './alerts.ts';
import type { Mutes } from './mutes.ts';
import type { ReceiverStates } from './receiver-states.ts';
import { type Answer, refusalOf, send, type Ways } from './send.ts';

/** The most news of one round; the rest follows in the next round. */
const MOST_NEWS = 100;

export interface PosterPorts
  extends Pick<AlertingPorts, 'alarm' | 'now' | 'view' | 'commit' | 'background' | 'log'> {
  receivers: readonly AlertReceiver[];
  alerts: Alerts;
  states: ReceiverStates;
  mutes: Mutes;
  ways: Ways;
  told(): Told;
  /** The interval at which the list is read while there are workers, ms: many problems arise by time alone. */
  everyMs: number;
}

/**
 * Tells each receiver what appears in the attention list and what disappears, until it has taken it. Each receiver goes
 * by itself: one that does not answer holds up no other.
 */
export class AlertPoster {
  readonly #ports: PosterPorts;
  /** The receivers that have not yet answered a post. */
  readonly #posting = new Set<string>();

  constructor(ports: PosterPorts) {
    this.#ports = ports;
  }

  /** Starts reading the list regularly; called when the fleet has news. */
  heard(): void {
    const { receivers, alarm, now, everyMs } = this.#ports;
    if (receivers.length > 0 && alarm.get() === null) alarm.set(now() + everyMs);
  }

  /** Reads the list, and posts its news without waiting for any receiver. */
  async postNews(): Promise<void> {
    const { receivers, alerts, mutes, view, alarm, now, everyMs, commit } = this.#ports;
    if (receivers.length === 0) return alarm.clear();
    // The alarm is set first, so that a failure below does not end the reading.
    alarm.set(now() + everyMs);
    const shown = await view();
    commit(() => mutes.bound(now()));
    const isNews = receivers.map((receiver) => this.#tell(receiver)).includes(true);
    if (!isNews && isStill(shown) && alerts.isQuiet) alarm.clear();
  }

  /** Sends a test to a receiver. */
  async test(receiver: AlertReceiver): Promise<TestPost> {
    const { ways, now, told } = this.#ports;
    const refusal = refusalOf(receiver, ways);
    if (refusal !== null) return { taken: false, text: refusal };
    const [outgoing] = await outgoingOf(receiver, [testNews(receiver, now())], told());
    const answer = await send(receiver, outgoing!, ways);
    this.#noted(receiver, answer);
    const { isTaken, how } = answer;
    const took = isTaken ? 'took the test post' : 'did not take the test post';
    return { taken: isTaken, text: `${receiver.name} ${took}: ${how}.` };
  }

  /** Tells one receiver its news. @returns whether there was any, also while it cannot be told */
  #tell(receiver: AlertReceiver): boolean {
    const { alerts, states, ways, now, commit, background } = this.#ports;
    const { name, ends } = receiver;
    if (refusalOf(receiver, ways) !== null) return false;
    const all = alerts.news(rulesOf(receiver), now()).slice(0, MOST_NEWS);
    const unwanted = ends ? [] : all.filter(({ what }) => what === 'over');
    if (unwanted.length > 0) commit(() => alerts.told(name, unwanted, now()));
    const news = all.filter((one) => !unwanted.includes(one));
    if (news.length === 0) return false;
    if (this.#posting.has(name) || now() < states.of(name).retry_at) return true;
    this.#posting.add(name);
    background(this.#post(receiver, news).finally(() => this.#posting.delete(name)));
    return true;
  }

  async #post(receiver: AlertReceiver, news: readonly News[]): Promise<void> {
    const { alerts, ways, told, now, commit } = this.#ports;
    const all: Outgoing<News>[] = await outgoingOf(receiver, news, told());
    let refusal: Answer | null = null;
    for (const outgoing of all) {
      const answer = await send(receiver, outgoing, ways);
      if (answer.isTaken) {
        this.#noted(receiver, answer);
        commit(() => alerts.told(receiver.name, outgoing.about, now()));
        continue;
      }
      refusal = answer;
      // A problem that the receiver refuses keeps no other from it.
      if (!answer.refusesThis) break;
    }
    // The refusal is noted last, so that the pause before the next try grows.
    if (refusal !== null) this.#noted(receiver, refusal);
  }

  /** Notes how a receiver answered, and logs when it stops or begins to take posts. */
  #noted({ name }: AlertReceiver, { isTaken, how }: Answer): void {
    const { states, now, commit, log } = this.#ports;
    if (isTaken) {
      if (states.of(name).failures > 0) log('info', `${name} takes alerts again`);
      return commit(() => states.taken(name, now()));
    }
    const pauseMs = commit(() => states.failed(name, how, now()));
    log('warn', `${name} does not take alerts: ${how}; trying again in ${pauseMs / 1000} s`);
  }
}

function testNews({ name }: AlertReceiver, now: number): ToldNews {
  const problem = {
    id: `test/${name}`,
    code: 'test',
    severity: 'info',
    config_id: null,
    worker_id: null,
    text: `This is a test of the alert receiver "${name}".`,
    advice: 'There is nothing to do.',
  } as const;
  return { what: 'came', problem, came_at: now, over_at: null, before: null };
}

/** Returns whether nothing needs attention and time alone will not change that. */
function isStill({ attention, workers, scaling }: FleetView): boolean {
  const isOver = ({ state }: FleetView['workers'][number]) => state === 'stopped' || state === 'lost';
  return attention.length === 0 && scaling === null && workers.every(isOver);
}
